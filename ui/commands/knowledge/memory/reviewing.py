"""`sandbur memory review` and `extract`: facts that were found in sessions, and a person's decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from .....agent.knowledge.memory.memories import Memories
from .....agent.knowledge.memory.memory import ExtractsFacts
from .....agent.runtime.agent_definition import PLAIN
from .....state.errors import UsageError
from .....state.memory.fact_store import find_similar
from .....state.memory.facts import Fact, shorten_id
from ....chat.decisions.questions import OneKey
from ....cli.open_session import open_runtime
from ....terminal.terminal import encode, is_interactive, put, say
from ....terminal.text.sanitize import plain
from .command import MemoryCommand
from .fact_lines import COMMAND, describe_acceptance, describe_proposal, make_object
from .looking import open_memory, select_scopes

QUESTION, KEYS = "Keep this fact? [y/n/s] ", "yns"
_NONE = "No fact waits for you."


async def review_proposals(command: MemoryCommand) -> int:
    """Decide about the proposals that the flags name; without any, ask about each or list them."""
    async with open_memory(command) as memories:
        if command.accept or command.reject:
            return _decide(memories, command)
        waiting = memories.list_proposals(select_scopes(memories, command.scope))
        if command.json:
            for proposal in waiting:
                put(encode(_make_proposal(memories, proposal)))
            return 0
        if not waiting:
            say(_NONE)
        for proposal in waiting:
            for line in describe(memories, proposal):
                put(plain(line))
            if is_interactive():
                await _ask(memories, proposal)
        if waiting and not is_interactive():
            say("Decide with: sandbur memory review --accept ID --reject ID")
    return 0


async def extract_facts(command: MemoryCommand) -> int:
    """Find facts in the sessions that were not read yet; return 1 if that failed for one of them."""
    async with open_runtime(command) as runtime:
        found = runtime.start_extension("extraction")
        if found is None:
            raise UsageError("The extension that finds facts is not installed.")
        cwd = runtime.settings.cwd
        report = await cast("ExtractsFacts", found).extract(PLAIN, cwd)
    say(f"Proposed {report.proposed:,}, kept {report.kept:,}, confirmed {report.confirmed:,}.")
    for problem in report.problems:
        say(plain(problem))
    if report.proposed:
        say("Decide about the proposals: sandbur memory review")
    return int(bool(report.problems))


def describe(memories: Memories, proposal: Fact) -> Sequence[str]:
    """Return a proposal as lines for the person who decides."""
    target = memories.proposals.find_target(proposal)
    return [*describe_proposal(proposal, target, find_similar(memories.facts, proposal))]


async def _ask(memories: Memories, proposal: Fact) -> None:
    """Ask at the terminal: a key, or another text for the fact."""
    question = OneKey(QUESTION, KEYS, text_means="keep this text instead", safe="s")
    answer = await question.ask_alone()
    if answer.key == "y" or answer.text.strip():
        for line in describe_acceptance(memories.accept(proposal.id, answer.text), COMMAND):
            say(plain(line))
    elif answer.key == "n":
        memories.reject([proposal.id])
        say(f"Rejected. Undo it with: sandbur memory restore {shorten_id(proposal.id)}")


def _decide(memories: Memories, command: MemoryCommand) -> int:
    accepted = [memories.find(text) for text in command.accept]
    rejected = [memories.find(text) for text in command.reject]
    if both := {one.id for one in accepted} & {one.id for one in rejected}:
        raise UsageError(f"Fact {shorten_id(min(both))} cannot be accepted and rejected.")
    for fact in (*accepted, *rejected):
        if fact.state != "proposed":
            raise UsageError(f"Fact {shorten_id(fact.id)} is {fact.state}, and not a proposal.")
    for fact in accepted:
        for line in describe_acceptance(memories.accept(fact.id), COMMAND):
            say(plain(line))
    if rejected:
        memories.reject([fact.id for fact in rejected])
        say(f"Rejected {len(rejected)}.")
    return 0


def _make_proposal(memories: Memories, proposal: Fact) -> dict[str, object]:
    target = memories.proposals.find_target(proposal)
    return {
        **make_object(proposal),
        "corrects": None if target is None else target.id,
        "similar": [one.id for one in find_similar(memories.facts, proposal)],
    }
