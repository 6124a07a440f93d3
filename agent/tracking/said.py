"""The messages that the steps of a page need, read from the store in one go."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.tracking.messages import arguments_in, arguments_view, blocks, parsed
from agent.tracking.recording import Recording, Reference
from agent.tracking.texts import Texts
from state.store.line_texts import MessageLine, message_line

Json = dict[str, Any]


class Said:
    """Messages by their place, and the arguments of the calls that they ask for."""

    def __init__(self, recording: Recording, wanted: Sequence[Reference], texts: Texts) -> None:
        self._texts = texts
        self._bodies = recording.bodies(wanted)
        self._messages = {place: parsed(body) for place, body in self._bodies.items()}
        self._asked: dict[str, str] = {}
        for message in self._messages.values():
            self._asked |= arguments_in(message)
        self._shown: dict[str, Any] = {}

    def messages(self, references: Sequence[Reference]) -> list[Json]:
        return [self._messages[ref[:3]] for ref in references if ref[:3] in self._messages]

    def lines(self, references: Sequence[Reference]) -> list[MessageLine]:
        return [message_line(self._bodies[ref[:3]]) for ref in references if ref[:3] in self._bodies]

    def by_history(self, references: Sequence[Reference]) -> dict[str | None, list[Json]]:
        """Return messages by the step of the plan that they belong to; None: the global history."""
        found: dict[str | None, list[Json]] = {}
        for reference in references:
            found.setdefault(reference.step_id, []).extend(self.messages([reference]))
        return found

    def results(self, references: Sequence[Reference]) -> dict[str, Json]:
        """Return the results in these messages by call."""
        found = (block for message in self.messages(references) for block in blocks(message))
        return {str(block.get("call_id")): block for block in found if block.get("kind") == "tool_result"}

    def arguments(self, call_ids: Sequence[str]) -> Mapping[str, Any]:
        """Return the arguments of calls, as JSON where they are."""
        for call_id in call_ids:
            if call_id not in self._shown:
                self._shown[call_id] = arguments_view(self._asked.get(call_id, ""), self._texts)
        return {call_id: self._shown[call_id] for call_id in call_ids}
