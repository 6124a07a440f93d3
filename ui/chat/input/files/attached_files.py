"""Attaches the files that a message names: texts, lists of folders, pictures and documents."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from .....actions.ports import Verdict
from .....actions.turn.commands import is_command
from .....actions.workspace.paths import (
    FileProblem,
    format_count,
    format_path_from,
    make_absolute,
    open_regular,
)
from .....actions.workspace.protected.secret_files import is_secret_file
from .....actions.workspace.safe_open import resolve_real_path
from .....actions.workspace.text import SAMPLE_BYTES, TextForm, detect_sample_form, name_binary_kind
from .....state.conversation.attachments import AttachedFile, attachment_from_path
from .....state.conversation.content import format_attachment_size
from .....state.conversation.messages import UserContent
from .....state.errors import UsageError
from .....state.lazy_dataclass import dataclass
from .mentions import ATTACHABLE_FILES, MENTION

_ENDS = ".,;:!?)]}'"
"""Punctuation that may follow a path in a sentence."""
_HEAD_BYTES, _TAIL_BYTES = 40_000, 10_000
_MOST_BYTES, _MOST_MENTIONS, _MOST_ENTRIES = 200_000, 20, 200

_Judge = Callable[[str], Verdict]
"""Returns the gate's verdict on reading a file."""
_Refusal = Callable[[AttachedFile], str | None]
"""Returns the reason why the model cannot receive a file, or None."""


@dataclass(frozen=True, slots=True)
class Mentioned:
    """A message with the files that it names."""

    content: UserContent
    notices: tuple[tuple[bool, str], ...] = ()
    """For each named file: whether it was attached, and a line about it."""


def with_named_files(text: str, cwd: Path, judge: _Judge, refusal: _Refusal) -> Mentioned:
    """Return a message with the files that it names.

    A file that may not or cannot be read is left out, and a notice gives the reason.
    """
    named = list(dict.fromkeys(find_paths(text, cwd)))
    if not named or is_command(text):
        return Mentioned(text)
    files: list[AttachedFile] = []
    blocks: list[str] = []
    notices: list[tuple[bool, str]] = []
    room = _MOST_BYTES
    for name in named[:_MOST_MENTIONS]:
        try:
            found = _find_file(name, cwd, judge, refusal, room)
        except (FileProblem, UsageError, OSError) as problem:
            notices.append((False, f"Not attached: {_sentence(problem)}"))
            continue
        if isinstance(found, _Block):
            blocks.append(found.text)
            room -= len(found.text.encode())
            notices.append((True, f"Attached: {found.label}"))
        else:
            files.append(found)
            notices.append((True, f"Attached: {name} {found.label}"))
    if len(named) > _MOST_MENTIONS:
        notices.append((False, f"Not attached: more than {_MOST_MENTIONS} files in one message."))
    whole = "\n\n".join([text, *blocks])
    return Mentioned((*files, whole) if files else whole, tuple(notices))


def find_paths(text: str, cwd: Path) -> Sequence[str]:
    """Return the paths after `@` that exist, as they are written in the text."""
    found: list[str] = []
    for quoted, plain in MENTION.findall(text):
        wanted = [quoted] if quoted else [plain, plain.rstrip(_ENDS)]
        name = next((name for name in wanted if name and _is_there(make_absolute(name, cwd))), None)
        if name is not None:
            found.append(name)
    return found


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


class _Block(NamedTuple):
    """A file or a folder as text."""

    text: str
    """The text for the model."""
    label: str
    """A short description for the person."""


def _find_file(name: str, cwd: Path, judge: _Judge, refusal: _Refusal, room: int) -> _Block | AttachedFile:
    path = make_absolute(name, cwd)
    real = resolve_real_path(path)
    shows = real.suffix.lower() in ATTACHABLE_FILES
    verdict = judge(name)
    # A picture or document may come from any folder; deny rules still apply.
    if is_secret_file(str(real)) or is_secret_file(str(path)):
        raise FileProblem(f"{name} is a file that holds secrets.")
    if verdict.decision == "deny" or (verdict.decision == "ask" and not shows):
        raise FileProblem(f"{name}: {verdict.reason}.")
    if real.is_dir():
        return _folder_block(real, format_path_from(path, cwd))
    if room <= 0:
        raise FileProblem(f"{name} would make the message too long.")
    if not shows:
        return _file_block(real, format_path_from(path, cwd), min(room, _HEAD_BYTES + _TAIL_BYTES))
    file = attachment_from_path(real)
    if why := refusal(file):
        raise FileProblem(f"{name}: {why}")
    return file


def _folder_block(folder: Path, name: str) -> _Block:
    with os.scandir(folder) as found:
        entries = sorted(f"{one.name}/" if one.is_dir() else one.name for one in found)
    more = len(entries) - _MOST_ENTRIES
    lines = [*entries[:_MOST_ENTRIES], *([f"... {more:,} more"] if more > 0 else [])]
    return _block("folder", name, f"{len(entries):,} entries", "\n".join(lines))


def _file_block(file: Path, name: str, limit: int) -> _Block:
    with open_regular(file) as source:
        size = os.fstat(source.fileno()).st_size
        sample = source.read(SAMPLE_BYTES) or b""
        form = detect_sample_form(sample)
        if form is None:
            raise FileProblem(f"{name} is a binary file ({name_binary_kind(sample)}), not text.")
        source.seek(0)
        if size <= limit:
            text = _text(source.read(limit + 1), form)
            return _block("file", name, format_count(text.rstrip("\n").count("\n") + 1, "line"), text)
        head = _text(source.read(limit * 4 // 5), form).rpartition("\n")[0]
        source.seek(-(limit // 5) & ~3, os.SEEK_END)
        tail = _text(source.read(limit), form).partition("\n")[2]
    gap = f"\n[... {format_attachment_size(size - len(head.encode()) - len(tail.encode()))} left out ...]\n"
    return _block("file", name, f"both ends of {format_attachment_size(size)}", f"{head}{gap}{tail}")


def _text(content: bytes, form: TextForm) -> str:
    return content.removeprefix(form.mark).decode(form.encoding, "replace").replace("\r\n", "\n")


def _block(kind: str, name: str, notices: str, text: str) -> _Block:
    # The content of a file must not end its block.
    inside = text.replace(f"</{kind}>", f"<\\/{kind}>").rstrip("\n")
    label = f"{name.rstrip('/')}/" if kind == "folder" else name
    return _Block(f'<{kind} path="{name}" has="{notices}">\n{inside}\n</{kind}>', f"{label} ({notices})")


def _sentence(problem: Exception) -> str:
    if isinstance(problem, OSError):
        return f"{problem.filename}: {problem.strerror}."
    return str(problem)
