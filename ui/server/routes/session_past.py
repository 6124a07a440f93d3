"""Looks into the past of a session: replays it with the present program, and searches all its messages."""

from ....actions.tools.registry import load_declared_traits
from ....agent.history.recall import RecalledPassage, recall
from ....agent.history.replay.replay import Replayed, replay
from ....agent.history.replay.walk import Today
from ....state.errors import UsageError
from . import forms
from .route import ApiRequest


async def replay_session(request: ApiRequest) -> forms.ReplayAnswer:
    """Replay the recorded steps, and answer with the first difference. Nothing runs and nothing changes."""
    wanted, service, store = request.read_body(forms.ReplayForm), request.service, request.store
    settings = await store.database.offload(lambda: store.index.settings(request.session_id))
    # A session of an agent that is not here is replayed with the recorded calls of its tools.
    agent = service.agents.get(settings.agent)
    today = Today(own={tool.spec.name: tool for tool in agent.definition.tools} if agent is not None else {})
    # A long session takes seconds of the processor, so there is one replay at a time.
    async with service.replay_lock:
        replayed = await replay(
            store, request.session_id, wanted.from_step, today, ignores_tools=wanted.ignore_tools
        )
    return _describe_replay(replayed)


def _describe_replay(replayed: Replayed) -> forms.ReplayAnswer:
    found = replayed.divergence
    return forms.ReplayAnswer(
        session_id=replayed.session_id,
        is_same=replayed.is_same,
        steps=replayed.steps,
        first_step=replayed.first_seq,
        last_step=replayed.last_seq,
        recorded_only=[*replayed.recorded_only],
        not_run=[*replayed.not_run],
        divergence=None
        if found is None
        else forms.DivergenceAnswer(
            step=found.seq,
            action=found.action,
            kind=found.kind,
            summary=found.summary,
            lines=[*found.lines],
        ),
    )


async def search_messages(request: ApiRequest) -> forms.PassageListAnswer:
    """Answer with the passages that match best, also of messages that compressions took out."""
    text = request.read_query(forms.PassageQueryForm).text
    if not text.strip():
        raise UsageError("The text to search for is empty.", "Write some words of what you look for.")
    # A call of a tool that searches messages repeats what it was asked for.
    hidden = frozenset(name for name, traits in load_declared_traits().items() if traits.repeats_messages)
    store = request.store
    found = await store.database.offload(lambda: recall(store, request.session_id, text, hidden))
    return forms.PassageListAnswer(passages=[_describe_passage(one) for one in found])


def _describe_passage(passage: RecalledPassage) -> forms.PassageAnswer:
    return forms.PassageAnswer(
        session_id=passage.session_id,
        step=passage.seq,
        at=passage.at,
        kind=passage.kind,
        tool=passage.tool,
        call_id=passage.call_id,
        text=passage.text,
        neighbour="" if passage.neighbour is None else passage.neighbour.text,
        reference=passage.reference,
        rest=passage.rest,
    )
