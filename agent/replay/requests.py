"""Compares what the model is asked today with what it was asked in the recorded run."""

from collections.abc import Iterator, Mapping

from agent.replay.comparison import Difference
from agent.replay.departure import Divergence
from agent.replay.lines import diff_lines
from agent.replay.recording import Moment
from state.trace import RequestShape


def request_divergence(
    moment: Moment, asked: RequestShape | None, tools: Mapping[str, str], behind: tuple[str, ...]
) -> Divergence | None:
    """Return how the request of a step differs.

    `tools` are today's, name -> digest; `behind` is what differs behind the step, which shows new words.
    """
    recorded = moment.called.request if moment.called is not None else None
    if recorded == asked or recorded is None:
        return None
    if asked is None:
        summary = "The recorded run asked the model here; today's program does not."
        return Divergence(moment.seq, moment.action, "request", summary)
    began = moment.began
    known = began.conditions.tools if began is not None and began.conditions is not None else {}
    found = list(_differences(recorded, asked, known, tools))
    summary = f"The model is asked something else: {', '.join(one.path for one in found)}."
    lines = diff_lines(found)
    if recorded.histories != asked.histories:
        lines += behind
    return Divergence(moment.seq, moment.action, "request", summary, lines)


def _differences(
    recorded: RequestShape, asked: RequestShape, known: Mapping[str, str], tools: Mapping[str, str]
) -> Iterator[Difference]:
    if recorded.fixed_sha256 != asked.fixed_sha256:
        changed = list(_in_tools(known, tools))
        yield from changed or [Difference("system prompt", recorded.fixed_sha256, asked.fixed_sha256)]
    if recorded.forced_tool != asked.forced_tool:
        yield Difference("forced tool", recorded.forced_tool or "none", asked.forced_tool or "none")
    if recorded.histories != asked.histories:
        yield Difference("histories", *(_sizes(shape) for shape in (recorded, asked)))


def _in_tools(known: Mapping[str, str], tools: Mapping[str, str]) -> Iterator[Difference]:
    for name in dict.fromkeys((*known, *tools)):
        old, new = known.get(name), tools.get(name)
        if old is None or new is None:
            sides = ("not offered" if digest is None else "offered" for digest in (old, new))
            yield Difference(f"tool {name}", *sides)
        elif old != new:
            said = (f"name, description and parameters: digest {digest}" for digest in (old, new))
            yield Difference(f"tool {name}", *said)
    if dict(known) == dict(tools) and list(known) != list(tools):
        yield Difference("order of the tools", ", ".join(known), ", ".join(tools))


def _sizes(shape: RequestShape) -> str:
    return ", ".join(f"{count} messages with {size} bytes" for count, size in shape.histories)
