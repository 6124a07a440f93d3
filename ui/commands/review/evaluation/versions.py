"""`sandbur eval --python`: the same evaluation with other installed versions of Sandbur."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from .....agent.config.data_folder import make_private
from .....agent.config.load import load_settings
from .....agent.config.settings import load_extensions
from .....agent.review.evaluation import evaluations_folder
from .....agent.review.evaluation.measures.result import EvaluationResult, join_results
from .....state.errors import SandburError, UsageError
from .....state.process.installation import OWN_MODULE
from ....cli.open_session import read_overrides
from ....terminal.terminal import say
from ....terminal.text.sanitize import one_line
from .command import EvalCommand

_OWN = ("--python", "--baseline", "--name", "--html", "--json", "-q", "--quiet")
_WITH_VALUE = ("--python", "--baseline", "--name", "--html")
_ASK_VERSION = "import sandbur; print(sandbur.__version__)"


async def run_versions(command: EvalCommand) -> EvaluationResult:
    """Run the evaluation with each interpreter, one after the other; return the joined result.

    Each version has a store of its own, because an older one cannot open the store of a later one.
    """
    load_extensions()
    settings = load_settings(read_overrides(command), os.environ)
    make_private(settings.home)
    folder = evaluations_folder(settings.home)
    folder.mkdir(mode=0o700, exist_ok=True)
    found: dict[str, EvaluationResult] = {}
    for python in dict.fromkeys(command.pythons):
        version = (await _start(python, ["-c", _ASK_VERSION])).strip()
        name = " ".join(filter(None, (command.run_name, version, python)))
        if not command.quiet:
            say(one_line(f"Runs with Sandbur {version} of {python}."))
        store = f"sqlite:///{folder / f'sandbur-{_keep_letters(version)}.db'}"
        words = [*_list_kept_words(command.line), "--json", "-q", "--name", name]
        text = await _start(python, [*OWN_MODULE, *words], SANDBUR_STORE=store)
        try:
            found[python] = EvaluationResult.from_json(json.loads(text))
        except ValueError as error:
            raise SandburError(f"Sandbur {version} of {python} printed no result: {error}.") from None
    return join_results(found)


def _list_kept_words(line: Sequence[str]) -> Iterator[str]:
    """Yield the words of the command line without the flags that differ for each version."""
    words = iter(line)
    for one in words:
        flag, equals, _ = one.partition("=")
        if flag not in _OWN:
            yield one
        elif flag in _WITH_VALUE and not equals:
            next(words, None)


async def _start(python: str, words: Sequence[str], **env: str) -> str:
    """Return what an interpreter prints on stdout; raises `SandburError` if it fails."""
    try:
        process = await asyncio.create_subprocess_exec(
            Path(python).expanduser(), *words, env={**os.environ, **env},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        raise UsageError(
            f"{python} cannot be started: {error.strerror}.", "--python takes the paths of interpreters."
        ) from None
    out, err = await process.communicate()
    if process.returncode:
        lines = err.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise SandburError(
            f"The runs with {python} failed: {lines[-1].removeprefix('sandbur: ')}",
            "It needs an installed Sandbur; what has ended is kept.",
        )
    return out.decode(errors="replace")


def _keep_letters(text: str) -> str:
    return "".join(one if one.isalnum() or one in ".-" else "_" for one in text)
