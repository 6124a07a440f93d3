"""Asks the gate about a hypothetical call, without a session, a model or the store."""

import json

from ...actions.ports import BadArguments, Gate, Toolbox, Verdict
from ...state.application import ExecutionMode, PlanTerms


class Judge:
    """A gate, and the tools whose calls it judges."""

    def __init__(self, gate: Gate, toolbox: Toolbox, plan: PlanTerms | None = None) -> None:
        """`plan` is what an approved plan allows; None without such a plan."""
        self._gate = gate
        self._toolbox = toolbox
        self._plan = plan

    def verdict(self, tool: str, arguments: str, mode: ExecutionMode) -> Verdict:
        """Return the verdict on a call with these JSON arguments. An invalid call is denied."""
        known = self._toolbox.get(tool)
        if known is None:
            return Verdict("deny", f"There is no tool named {tool[:80]!r}. The tools are: {self._names()}.")
        try:
            parsed = known.parse(arguments)
        except BadArguments as error:
            return Verdict("deny", str(error))
        return self._gate.judge(known, parsed, mode, plan=self._plan)

    def command_verdict(self, command: str, mode: ExecutionMode) -> Verdict:
        """Return the verdict on a shell command."""
        tool = next(tool for tool in self._toolbox.values() if tool.traits.runs_commands)
        arguments = json.dumps({tool.traits.subject: command})
        return self.verdict(tool.spec.name, arguments, mode)

    def reading_verdict(self, path: str, mode: ExecutionMode) -> Verdict:
        """Return the verdict on reading a file or listing a folder."""
        shows = (tool for tool in self._toolbox.values() if tool.traits.shows)
        tool = next(one for one in shows if one.traits.subject == "path" and not one.traits.writes_files)
        return self.verdict(tool.spec.name, json.dumps({tool.traits.subject: path}), mode)

    def _names(self) -> str:
        return ", ".join(self._toolbox)
