"""Displays the plan as a checklist with the usage of each step; during a run in only a few rows."""

from collections.abc import Iterable, Iterator

from ....state.application import StepStatus, Usage, VibeStep
from ....state.lazy_dataclass import dataclass
from ..lines import Line, step_sign
from ..status import count_all_tokens, short_count
from ..terminal import Glyphs
from ..text.sanitize import one_line
from ..text.times import format_seconds

MOST_STEPS = 8
"""The most plan steps in the live rows; of a longer plan these are the steps around the current one."""

_MOST_AGENTS = 4
"""The most sub-agents below a step."""


@dataclass(slots=True)
class _Spent:
    began: float | None = None
    seconds: float | None = None
    tokens: int | None = 0

    def stop(self, now: float) -> None:
        if self.began is not None:
            self.seconds, self.began = (self.seconds or 0) + now - self.began, None


class PlanProgress:
    """The steps of one plan with the time and the tokens they took."""

    def __init__(self, glyphs: Glyphs) -> None:
        self._glyphs = glyphs
        self._spent: dict[str, _Spent] = {}
        self._steps_of_calls: dict[str, str] = {}
        """Call that started a sub-agent -> its step."""
        self._agents: dict[str, dict[str, str]] = {}
        """Step -> id of a sub-agent that its calls started -> what that one does, on one line."""
        self.steps: tuple[VibeStep, ...] = ()
        self.is_open = False
        """True while the plan is active and not yet printed permanently."""
        self.is_reported = False
        """True once the plan was printed while it was active."""

    def set(self, steps: tuple[VibeStep, ...], is_open: bool = True) -> None:
        """Set the plan; keep the usage of its steps if the steps are those of the active plan.

        A plan without a started step is new if the previous plan has ended, even with the same steps.
        """
        begins_again = self.is_settled and not any(step.status != "pending" for step in steps)
        if begins_again or not self.is_same(steps):
            self._spent, self._agents, self.is_reported = {}, {}, False
            self._steps_of_calls = {}
        self.steps, self.is_open = steps, is_open

    def is_same(self, steps: tuple[VibeStep, ...]) -> bool:
        return _outline(steps) == _outline(self.steps)

    @property
    def is_begun(self) -> bool:
        return any(step.status != "pending" for step in self.steps)

    @property
    def is_settled(self) -> bool:
        return all(step.has_ended for step in self.steps)

    def change(self, step_id: str, status: StepStatus, now: float) -> None:
        self.steps = tuple(
            step.model_copy(update={"status": status}) if step.step_id == step_id else step
            for step in self.steps
        )
        spent = self._spent.setdefault(step_id, _Spent())
        if status == "in_progress":
            spent.began = now
        else:
            spent.stop(now)

    def stop(self, now: float) -> None:
        """Stop the clock of the current step, because other work follows."""
        for spent in self._spent.values():
            spent.stop(now)

    def go_on(self, now: float) -> None:
        for step in self.steps:
            if step.status == "in_progress":
                spent = self._spent.setdefault(step.step_id, _Spent())
                spent.began = now if spent.began is None else spent.began

    def note_call(self, call_id: str, step_id: str | None) -> None:
        """Remember to which step a call belongs, because several steps may run side by side."""
        if step_id is not None:
            self._steps_of_calls[call_id] = step_id

    def note_agent(self, agent_id: str, text: str, call_id: str = "") -> None:
        """Keep what a sub-agent does for the row below its step: that of its call, or the one in which it
        began.
        """
        started = (rows for rows in self._agents.values() if agent_id in rows)
        active = next((step.step_id for step in self.steps if step.status == "in_progress"), None)
        step_id = self._steps_of_calls.get(call_id, active)
        rows = next(started, None)
        if rows is None and step_id is not None:
            rows = self._agents.setdefault(step_id, {})
        if rows is not None:
            rows[agent_id] = text

    def use(self, latest: Usage) -> None:
        """Add the tokens of a model call to the current step."""
        active = next((step.step_id for step in self.steps if step.status == "in_progress"), None)
        if active is None:
            return
        spent = self._spent.setdefault(active, _Spent())
        taken = count_all_tokens(latest)
        spent.tokens = None if taken is None or spent.tokens is None else spent.tokens + taken

    def place(self, step_id: str) -> tuple[int, int, str]:
        """Return a step's number, the number of steps, and its title."""
        for number, step in enumerate(self.steps, 1):
            if step.step_id == step_id:
                return number, len(self.steps), one_line(step.description)
        return 0, len(self.steps), one_line(step_id)

    def heading(self, step_id: str) -> str:
        number, total, description = self.place(step_id)
        return f"Step {number}/{total} {self._glyphs.dot} {description}"

    @property
    def active(self) -> str:
        """Return the heading of the current step."""
        found = next((step.step_id for step in self.steps if step.status == "in_progress"), None)
        return "" if found is None else self.heading(found)

    def rows(
        self, now: float, most: int = MOST_STEPS, is_narrow: bool = False
    ) -> Iterator[tuple[str, str, str]]:
        """Yield role, text and suffix of each live row: the steps around the current one."""
        first, last = self._window(max(1, most))
        done = sum(step.status == "completed" for step in self.steps)
        total = len(self.steps)
        yield "heading", "Plan", f"  {done}/{total}"
        if first:
            yield "quiet", f"  {self._glyphs.rest} {first} before", ""
        for step in self.steps[first:last]:
            yield self._row(step, now, is_narrow)
            if step.status == "in_progress":
                yield from self._agent_rows(step.step_id)
        if last < total:
            yield "quiet", f"  {self._glyphs.rest} {total - last} more", ""

    def lines(self, now: float) -> Iterator[Line]:
        """Yield the whole plan with its usage so far."""
        yield "heading", "Plan"
        for step in self.steps:
            role, text, end = self._row(step, now)
            yield role, text + end
            yield from ((agent_role, line) for agent_role, line, _ in self._agent_rows(step.step_id))

    def _agent_rows(self, step_id: str) -> Iterator[tuple[str, str, str]]:
        """Yield a row for each of the newest sub-agents of a step."""
        texts = list(self._agents.get(step_id, {}).values())
        if (more := len(texts) - _MOST_AGENTS) > 0:
            yield "quiet", f"      {self._glyphs.rest} {more} sub-agents before", ""
        yield from (("quiet", f"      {text}", "") for text in texts[-_MOST_AGENTS:])

    def _window(self, most: int) -> tuple[int, int]:
        count = len(self.steps)
        if count <= most:
            return 0, count
        at = next((n for n, step in enumerate(self.steps) if step.status == "in_progress"), None)
        if at is None:
            at = next((n for n, step in enumerate(self.steps) if step.status == "pending"), count - 1)
        first = min(max(0, at - most // 3), count - most)
        return first, first + most

    def _row(self, step: VibeStep, now: float, is_narrow: bool = False) -> tuple[str, str, str]:
        sign, role = step_sign(step.status, self._glyphs)
        spent = self._spent.get(step.step_id, _Spent())
        seconds = spent.seconds
        if spent.began is not None:
            seconds = int((seconds or 0) + max(0.0, now - spent.began))
        facts = [] if seconds is None else [format_seconds(seconds)]
        if spent.tokens and not is_narrow:
            facts.append(f"{short_count(spent.tokens)} tokens")
        end = f"  {f' {self._glyphs.dot} '.join(facts)}" if facts else ""
        return role, f"  {sign} {one_line(step.step_id)}. {one_line(step.description)}", end


def _outline(steps: Iterable[VibeStep]) -> list[tuple[str, str]]:
    return [(step.step_id, step.description) for step in steps]
