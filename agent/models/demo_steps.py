"""How the demo plans a goal and works through a step of the plan."""

import re

from agent.models.demo_conversation import Conversation, Done
from agent.models.demo_moves import Call, Move, finish, run
from agent.models.demo_probes import DISK, FOLDERS, LOAD, PROBES, WEB, Finding, Probe, url_in

_WEB_WORDS = re.compile(r"https?://|\b(web|web ?site|site|server|page|shop|api|http|url)s?\b", re.IGNORECASE)
_DISK_WORDS = re.compile(r"\b(disk|disc|storage|space|partition|inode|drive)s?\b", re.IGNORECASE)
_MAY_HAVE_RUN = frozenset({"unknown", "interrupted"})


def probes_for(goal: str) -> tuple[Probe, ...]:
    if _WEB_WORDS.search(goal):
        return (LOAD, WEB, DISK)
    return (DISK, FOLDERS) if _DISK_WORDS.search(goal) else (LOAD, DISK)


def planned_steps(conversation: Conversation) -> Move:
    """Plan the goal's measurements, without those that an earlier step has already dealt with."""
    dealt_with = {line.summary.partition(":")[0] for line in conversation.step_lines}
    url = url_in(conversation.text)
    titles = [
        f"{probe.title}: {url}" if probe is WEB and url else probe.title
        for probe in probes_for(conversation.text)
        if probe.topic not in dealt_with
    ]
    steps = [{"description": title} for title in titles]
    return Move("", (Call("submit_plan", {"steps": steps}),))


def next_in_step(conversation: Conversation) -> Move:
    probe = next((probe for probe in PROBES if conversation.step_title.startswith(probe.title)), None)
    if probe is None:
        return finish("failed", f"The demo has no program for: {conversation.step_title or 'this step'}")
    if not conversation.done:
        return run(probe.command)
    last = conversation.done[-1]
    if last.result.outcome in _MAY_HAVE_RUN and _times_asked(last, conversation) < 2:
        again = "It is unknown whether that command ran. It only reads, so I run it again."
        return Move(again, (Call(last.use.tool, {"command": _follow(probe, conversation) or probe.command}),))
    follow_up = _follow(probe, conversation)
    if follow_up is not None and last.result.outcome in ("ok", "error"):
        return run(follow_up)
    return _conclusion(probe, conversation)


def _times_asked(last: Done, conversation: Conversation) -> int:
    return sum(done.use.arguments == last.use.arguments for done in conversation.done)


def _read(conversation: Conversation) -> list[str]:
    """Return what the commands printed; one that failed or ran too long may still have printed something."""
    outcomes = ("ok", "error", "timeout")
    return [done.result.content for done in conversation.done if done.result.outcome in outcomes]


def _follow(probe: Probe, conversation: Conversation) -> str | None:
    """Return the step's second command once the first has printed what it needs."""
    outputs = _read(conversation)
    return probe.follow_up(conversation.step_title, outputs[0]) if len(outputs) == 1 else None


def _conclusion(probe: Probe, conversation: Conversation) -> Move:
    outputs = _read(conversation)
    finding = probe.conclude(outputs) if outputs else Finding(())
    trouble = [_trouble(done) for done in conversation.done if done.result.outcome not in ("ok", "error")]
    if not finding.facts:
        why = (
            " ".join(trouble) or f"The command printed nothing readable. {_first_line(conversation.done[-1])}"
        )
        return finish("failed", f"{probe.topic}: not measured. {why}".strip())
    problems = f" Problem: {'; '.join(finding.problems)}." if finding.problems else ""
    more = f" {' '.join(dict.fromkeys(trouble))}" if trouble else ""
    return finish("completed", f"{probe.topic}: {'; '.join(finding.facts)}.{more}{problems}")


def _trouble(done: Done) -> str:
    match done.result.outcome:
        case "denied":
            return f"A command was denied: {_first_line(done)}"
        case "timeout":
            return "A command ran into its time limit."
        case _:
            return "Whether a command ran is unknown."


def _first_line(done: Done) -> str:
    return next((line.strip()[:200] for line in done.result.content.splitlines() if line.strip()), "")
