"""The gate: whether a tool call may run now, must be asked for, or is refused."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ...actions.ports import Tool, ToolTraits, Verdict
from ...state.application import ExecutionMode
from . import path_rules
from .path_rules import Workspace
from .rules import Rule, literal_of

PartT = TypeVar("PartT")

_PROTECTED = frozenset({".git", ".sandbur"})
"""Files in these folders can run commands or change the rules, so `auto-edit` still asks for them."""


@dataclass(frozen=True, slots=True)
class _Call:
    """What the rules look at."""

    tool: str
    traits: ToolTraits
    is_read_only: bool
    subject: str
    paths: tuple[str, ...]
    """As written; for a search the folder it reaches, by default the working folder."""


class Policy:
    """Deny rules win in every mode; what a rule does not decide is decided by the mode.

    A search below a folder is matched by that folder alone: deny rules do not filter what it finds.
    """

    def __init__(
        self, allow: Sequence[Rule], deny: Sequence[Rule], cwd: Path, add_dirs: Sequence[Path] = ()
    ) -> None:
        self._allow = tuple(allow)
        self._deny = tuple(deny)
        self._workspace = Workspace(cwd, add_dirs)

    def judge(self, tool: Tool, arguments: Any, mode: ExecutionMode) -> Verdict:
        call = _described(tool, arguments)
        try:
            return self._denied(call) or self._reaching(call, mode) or self._decided(call, mode)
        except ValueError:
            # A NUL or a lone surrogate: no system call will take this as a path.
            return Verdict("deny", f"{call.tool} was given something that cannot be a path")

    def _denied(self, call: _Call) -> Verdict | None:
        for rule in self._deny:
            if rule.names(call.tool) and self._hits(rule, call):
                return Verdict("deny", f"denied by rule {rule.text}", rule.text)
        return None

    def _reaching(self, call: _Call, mode: ExecutionMode) -> Verdict | None:
        """Judge what goes over the network; None for what does not."""
        if not call.traits.reaches:
            return None
        from . import web_rules

        judge = web_rules.verdict if call.traits.reaches == "address" else web_rules.service_verdict
        return judge(call.tool, call.subject, mode, [rule for rule in self._allow if rule.names(call.tool)])

    def _decided(self, call: _Call, mode: ExecutionMode) -> Verdict:
        if mode == "yolo":
            return Verdict("allow", "everything is allowed in yolo mode")
        concern = self._concern(call)
        if mode == "plan" and not call.is_read_only:
            return Verdict("deny", f"plan mode only looks: {concern}")
        if concern is None:
            return Verdict("allow", f"{call.tool} only reads inside the workspace")
        if rules := self._allowing(call):
            used = ", ".join(rules)
            return Verdict("allow", f"allowed by rule {used}", used)
        if mode == "plan":
            return Verdict("deny", f"plan mode only looks inside the workspace: {concern}")
        if mode == "auto-edit" and call.traits.writes_files:
            return self._edit(call)
        return Verdict("ask", concern)

    def _concern(self, call: _Call) -> str | None:
        """Say why a call needs a decision; None if it only reads inside the workspace."""
        if not call.is_read_only:
            return f"{call.tool} is not read-only"
        outside = self._workspace.outside(call.paths)
        return f"{_shown(outside)} is outside the workspace" if outside is not None else None

    def _edit(self, call: _Call) -> Verdict:
        outside = self._workspace.outside(call.paths)
        if outside is not None or not call.paths:
            return Verdict("ask", f"{_shown(outside or call.subject)} is outside the workspace")
        for path in call.paths:
            if folder := _PROTECTED.intersection(self._workspace.real(path).lower().split("/")):
                return Verdict(
                    "ask", f"{_shown(path)} is in {min(folder)}, which auto-edit mode leaves alone"
                )
        return Verdict("allow", "edits inside the workspace are allowed in auto-edit mode")

    def _allowing(self, call: _Call) -> list[str]:
        """Return the rules that together cover the whole call; empty if any part of it is not covered."""
        rules = [rule for rule in self._allow if rule.names(call.tool)]
        whole = next((rule for rule in rules if rule.pattern is None), None)
        if whole is not None:
            return [whole.text]
        if call.traits.runs_commands:
            return self._covering_command(rules, call)
        return self._covering_paths(rules, call)

    def _covering_command(self, rules: Sequence[Rule], call: _Call) -> list[str]:
        everything = next((rule for rule in rules if rule.pattern == "*"), None)
        if everything is not None:
            return [everything.text]
        if self._workspace.outside(call.paths) is not None:
            return []
        exact = next((rule for rule in rules if literal_of(rule.pattern or "") == call.subject.strip()), None)
        if exact is not None:
            return [exact.text]
        from . import shell_rules

        commands, doubts = shell_rules.read_commands(call.subject)
        if doubts:
            return []
        return _covering(rules, commands, shell_rules.covers)

    def _covering_paths(self, rules: Sequence[Rule], call: _Call) -> list[str]:
        if not call.paths:
            matching = (rule.text for rule in rules if fnmatchcase(call.subject, rule.pattern or ""))
            return list(matching)[:1]
        return _covering(rules, call.paths, partial(path_rules.covers, workspace=self._workspace))

    def _hits(self, rule: Rule, call: _Call) -> bool:
        if rule.pattern is None:
            return True
        if call.traits.runs_commands:
            from . import shell_rules

            return shell_rules.hits(rule.pattern, call.subject)
        if call.traits.reaches == "address":
            from . import web_rules

            return web_rules.hits(rule.pattern, call.subject)
        if fnmatchcase(call.subject, rule.pattern):
            return True
        return any(path_rules.hits(rule.pattern, path, self._workspace) for path in call.paths)


def _covering(
    rules: Sequence[Rule], parts: Iterable[PartT], covers: Callable[[str, PartT], bool]
) -> list[str]:
    """Return the first rules that cover the parts; empty if any part is not covered."""
    used: dict[str, None] = {}
    for part in parts:
        rule = next((rule for rule in rules if covers(rule.pattern or "", part)), None)
        if rule is None:
            return []
        used[rule.text] = None
    return list(used)


def _described(tool: Tool, arguments: Any) -> _Call:
    is_read_only, paths = tool.effect == "read", tuple(tool.paths(arguments))
    if is_read_only and not paths:
        paths = (".",)
    return _Call(tool.spec.name, tool.traits, is_read_only, tool.subject(arguments), paths)


def _shown(path: str) -> str:
    text = path if path.isprintable() else ascii(path)
    return text if len(text) <= 200 else f"{text[:200]}..."
