"""The folder of one run: the workspace in which an agent works, and the scripts that check or solve it."""

from __future__ import annotations

import math
import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from .....actions.tools.shell.execution.process import run_supervised
from .....actions.tools.shell.execution.spool import CommandLimits, Ended, Spool
from .....actions.tools.shell.sandbox.launch import NO_SANDBOX
from .....actions.tools.shell.sandbox.sandbox import Sandbox, Workplace, sandbox_kind
from .....actions.workspace.copies.folder_copy import remove_tree
from .....actions.workspace.paths import FileProblem, open_regular
from .....state.errors import SandboxMissing, UsageError
from .....state.process.cancellation import run_to_end
from .....state.session import SandboxWish
from .. import evaluations_folder
from ..suites.task import Task
from ..suites.task_folder import list_workspace_files

_MOST_OUTPUT_BYTES = 20_000_000
_MOST_TEXT_BYTES = 4_000
_MOST_REWARD_BYTES = 100
_MOST_REASON_CHARS = 200
_TIMED_OUT = 124
_PATHS = re.compile(r"(?<![\w./$}-])/(app|tests|solution|logs/verifier)(?![\w-]|\.\w)")
"""The paths that scripts of harbor have in their container."""


class RunPlace:
    """The folder of one run, named by its session."""

    def __init__(
        self, home: Path, session_id: str, task: Task, sandbox: SandboxWish, domains: tuple[str, ...]
    ) -> None:
        """`home` is the data folder. `domains` are the hosts that scripts may reach in a sandbox."""
        self.folder = evaluations_folder(home) / session_id
        self.workspace = self.folder / "app"
        self._home, self._task, self._sandbox, self._domains = home, task, sandbox, domains

    @property
    def instruction(self) -> str:
        """The instruction of the task, with the paths of the container replaced by those of this folder."""
        return self.translate(self._task.instruction)

    def translate(self, text: str) -> str:
        """Replace `/app`, `/tests`, `/solution` and `/logs/verifier` by the folders of this run."""
        return _PATHS.sub(lambda found: os.fspath(self.folder / found[1]), text)

    def make(self) -> None:
        """Fill the workspace, unless an earlier process did; a kill in between leaves nothing that counts."""
        if self.workspace.is_dir():
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = self.folder / f"new-{secrets.token_hex(4)}"
        made.mkdir()
        for path, content in self._task.files.items():
            place = made / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)
        if self._task.folder is not None:
            for source, inside in list_workspace_files(self._task.folder):
                (made / inside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, made / inside)
        made.rename(self.workspace)

    async def run_check(self) -> tuple[float, str]:
        """Run the script of the task in the workspace; return the reward and the end of the output."""
        logs = self.folder / "logs" / "verifier"
        if logs.parent.exists():
            remove_tree(logs.parent)
        logs.mkdir(parents=True)
        if self._task.folder is not None:
            script = self._copy_scripts("tests") / "test.sh"
        else:
            script = self.folder / "tests" / "test.sh"
            script.parent.mkdir(exist_ok=True)
            script.write_text(self._translate_script(str(self._task.check)), "utf-8", newline="")
        code, output = await self._run_script(script, self._task.check_timeout_s)
        reward, problem = _read_reward(logs, code)
        return reward, "\n".join(filter(None, (output, problem)))

    async def run_solution(self, script: str) -> tuple[int, str]:
        """Run a script of `solution/` in the workspace; return its exit code and the end of the output."""
        return await self._run_script(self._copy_scripts("solution") / script, self._task.timeout_s)

    def _copy_scripts(self, name: str) -> Path:
        """Copy a folder of the task with translated paths. Before, no model could read or change it.

        Raises `UsageError` if it cannot be copied.
        """
        assert self._task.folder is not None, "only tasks from folders have scripts"
        source, target = self._task.folder / name, self.folder / name
        if target.exists():
            remove_tree(target)
        try:
            shutil.copytree(source, target, ignore=_list_special_files, ignore_dangling_symlinks=True)
        except OSError as error:
            raise UsageError(f"The folder {source} cannot be copied: {_find_reason(error)}.") from None
        for path in (one for one in target.rglob("*") if one.is_file()):
            with suppress(UnicodeDecodeError):
                text = path.read_bytes().decode()
                translate = self._translate_script if path.suffix == ".sh" else self.translate
                if (changed := translate(text)) != text:
                    path.write_bytes(changed.encode())
        return target

    def _translate_script(self, text: str) -> str:
        """Translate a script, which a shell can read only with the line ends of Unix and without a mark."""
        return self.translate(text.removeprefix("\ufeff").replace("\r\n", "\n"))

    async def _run_script(self, script: Path, timeout_s: float) -> tuple[int, str]:
        """Run a script in the workspace; return its exit code and the end of its output, and why it was
        stopped if it was."""
        limits = CommandLimits(timeout_s, timeout_s, _MOST_OUTPUT_BYTES)
        # What ran here before may have removed it.
        self.workspace.mkdir(parents=True, exist_ok=True)
        scratch = self.folder / f"script-{secrets.token_hex(4)}"
        scratch.mkdir(mode=0o700)
        sandbox = self._open_sandbox()
        try:
            with Spool(scratch / "command", secrets.token_hex(8)) as spool:
                words, workspace = ["/bin/bash", os.fspath(script)], self.workspace
                if sandbox is None:
                    ended = await run_supervised(
                        words, workspace, limits, spool, lambda: False, launch=NO_SANDBOX
                    )
                else:
                    async with sandbox.launch(workspace) as launch:
                        ended = await run_supervised(
                            words, workspace, limits, spool, lambda: False, launch=launch
                        )
                output, _ = spool.news(_MOST_TEXT_BYTES)
        finally:
            if sandbox is not None:
                sandbox.close()
            await run_to_end(_remove(scratch))
        code = (
            _TIMED_OUT if ended.reason in ("timeout", "idle") else 1 if ended.status is None else ended.status
        )
        text = output.decode(errors="replace").strip()
        text = "\n".join(filter(None, (text, _describe_end(ended, limits))))
        return code if code >= 0 else 128 - code, text

    def _open_sandbox(self) -> Sandbox | None:
        """Return the sandbox of a script, in which it may change the folder of this run alone."""
        if self._sandbox == "off":
            return None
        if (kind := sandbox_kind()) is None:
            if self._sandbox == "required":
                raise SandboxMissing("There is no sandbox here.", "`sandbur doctor` says why.")
            return None
        return Sandbox(kind, Workplace((self.folder,), Path.home(), (self._home,)), self._domains)


async def _remove(folder: Path) -> None:
    remove_tree(folder)


def _list_special_files(folder: str, names: list[str]) -> list[str]:
    """Return the names of pipes, sockets and devices, which cannot be copied."""
    found = [(name, Path(folder, name)) for name in names]
    return [name for name, path in found if path.exists() and not (path.is_file() or path.is_dir())]


def _find_reason(error: OSError) -> str:
    """Return why something was not copied; `shutil.Error` has a list of paths with their reasons."""
    if isinstance(error, shutil.Error) and error.args and error.args[0]:
        source, _, why = error.args[0][0]
        return f"{source}: {why}"[:_MOST_REASON_CHARS]
    return error.strerror or str(error)


def _describe_end(ended: Ended, limits: CommandLimits) -> str:
    """Return why a script was stopped; empty if it ended by itself."""
    if ended.reason in ("timeout", "idle"):
        return f"The script reached its time limit of {limits.timeout_s:g} s."
    if ended.problem or ended.too_many:
        why = ended.problem or f"it had {ended.too_many} processes at once"
        return f"The script was stopped: {why}."
    return "The process that ran the script was killed." if ended.status is None else ""


def _read_reward(logs: Path, code: int) -> tuple[float, str]:
    """Return the reward that a script wrote, or 1 for exit code 0; and why it does not count, if it does not.

    A text that is no finite number is the reward 0.
    """
    try:
        # A script may leave a pipe or a device in its place, which would never end.
        with open_regular(logs / "reward.txt") as file:
            text = file.read(_MOST_REWARD_BYTES).decode(errors="replace").strip()
    except (FileProblem, OSError):
        return 1.0 if code == 0 else 0.0, ""
    with suppress(ValueError):
        if math.isfinite(reward := float(text)):
            return reward, ""
    return 0.0, f"reward.txt has {text!r}, which is no number."


def remove_of_session(home: Path, session_id: str) -> None:
    """Remove the workspace of a deleted session, if it has one."""
    folder = evaluations_folder(home) / session_id
    if session_id and folder.parent == evaluations_folder(home) and folder.is_dir():
        with suppress(OSError):
            remove_tree(folder)
