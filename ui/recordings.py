"""`sandbur test add`: turns a recorded run into a test of the person's own project."""

import os
import re
import tempfile
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from state.errors import OutputLost, UsageError
from ui.arguments import Arguments
from ui.jsonlines import encoded
from ui.opening import opened
from ui.sanitize import one_line
from ui.terminal import put, say

_MAX_NAME = 50
_TEST = """\
def test_{name}(sandbur_replay):
    sandbur_replay("recordings/{name}.jsonl")
"""


async def add_recording(arguments: Arguments) -> int:
    """Write the recording and its test; return 4 if the run differs from this program already."""
    from agent.replay.replay import replay
    from state.store.transfer import export_session
    from ui.divergence import told

    async with opened(arguments) as runtime:
        session_id = runtime.store.find(arguments.session)
        title = runtime.store.index.summary(session_id).title
        name = checked_name(arguments.name) if arguments.name else name_of(title, session_id)
        folder = Path(arguments.to)
        recording, test = folder / "recordings" / f"{name}.jsonl", folder / f"test_{name}.py"
        _refuse_taken((recording, test), arguments.force)
        replayed = await replay(runtime.store, session_id)
        records = export_session(runtime.store.database, session_id)
        write_whole(recording, (encoded(record) + "\n" for record in records))
    write_whole(test, [_TEST.format(name=name)])
    put(str(test))
    say(f"Recorded {replayed.steps} steps in {one_line(str(recording))}, with all that was said and done.")
    if replayed.divergence is not None:
        say(f"The test fails as it is: {told(name, replayed.divergence)}")
        return 4
    say(f"Run it: pytest {one_line(str(test))}")
    return 0


def checked_name(name: str) -> str:
    """Return the name that a person chose; raises `UsageError` if it cannot be a test's."""
    wanted = name.removeprefix("test_").replace("-", "_")
    if re.fullmatch(r"[A-Za-z0-9_]{1,100}", wanted):
        return wanted
    raise UsageError(f"--name: {one_line(name[:60])!r} cannot name a test.", "Use letters, digits and _.")


def name_of(title: str, session_id: str) -> str:
    """Return a name made of a title, whatever is in it."""
    letters = unicodedata.normalize("NFKD", title.casefold()).encode("ascii", "ignore").decode()
    words = re.findall(r"[a-z0-9]+", letters)
    name = "_".join(words)
    if len(name) > _MAX_NAME:
        name = name[:_MAX_NAME].rpartition("_")[0] or name[:_MAX_NAME]
    return name or f"run_{re.sub('[^a-z0-9]', '', session_id.lower())[:8]}"


def write_whole(path: Path, pieces: Iterable[str]) -> None:
    """Write a file that is there as a whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        number, temporary = tempfile.mkstemp(dir=path.parent, prefix=".sandbur-", suffix=".tmp")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.writelines(pieces)
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except OSError as error:
        raise OutputLost(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        with suppress(FileNotFoundError):
            Path(temporary).unlink()


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _refuse_taken(paths: Iterable[Path], is_forced: bool) -> None:
    taken = next((path for path in paths if path.exists() and not is_forced), None)
    if taken is not None:
        raise UsageError(
            f"{one_line(str(taken))} exists already.", "Choose a --name, or replace it with --force."
        )
