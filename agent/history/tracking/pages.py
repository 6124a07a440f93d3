"""The run pages of one session, in the JSON form that Burr's tracking UI reads."""

import hashlib
import json
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from burr.core import Action
from burr.tracking.common.models import ActionModel, ApplicationModel, TransitionModel

from ....actions.ports import PORTS
from ....state.errors import SessionNotFound
from ....state.session import SessionSummary
from ....state.store.sessions.session_rows import Fork, Head
from ....state.store.store import Store
from ...graph import build_graph
from .entries import AppName, app_id, attributes, partition_key
from .live_recording import LiveRecording, Stretch, Tail, stretches, tail
from .step_entries import StepRenderer
from .texts import Json, Texts


@cache
def graph_json() -> bytes:
    """Return the graph as JSON."""
    graph = build_graph()
    model = ApplicationModel(
        entrypoint="prompt",
        actions=[_describe_action(action) for action in graph.actions],
        transitions=[TransitionModel.from_transition(transition) for transition in graph.transitions],
    )
    return model.model_dump_json().encode()


def _describe_action(action: Action) -> ActionModel:
    """Describe an action as Burr does, without the fields that are the same in all runs."""
    model = ActionModel.from_action(action)
    return model.model_copy(update={"inputs": [name for name in model.inputs if name != PORTS]})


PAGE_STEPS = 100
"""The number of steps on a page of older steps."""
_LEAST_STEPS = 50
"""The least number of newest steps on a run page, which has at most twice as many: a browser takes time for
each row."""
_MOST_CACHED_BYTES = 12_000_000
_FORKS_EVERY_S = 2.0
_MOST_SUB_AGENTS = 1000
"""Seconds between two searches for forks. Each search reads the whole list, and no event can trigger it."""


class Page(NamedTuple):
    version: str
    """A text that changes whenever the page may look different."""
    body: bytes | None
    """The JSON of the page; None if the caller already has this version."""


class _Cut(NamedTuple):
    """The steps on a page: those from index `first` to before `end`."""

    first: int
    end: int
    has_tail: bool
    spawned_at: int | None
    """The step of the session's main page that this page belongs to; None for the main page itself."""


class SessionPages:
    """The pages of one session. Raises `SessionNotFound` if the store's tenant has no session of this id."""

    def __init__(self, store: Store, session_id: str, texts: Texts) -> None:
        self._store = store
        self._id = session_id
        self._texts = texts
        self._settings = store.index.settings(session_id)
        summary = store.index.summary(session_id)
        parent_id, seq = summary.parent_id, summary.parent_seq
        self._parent = None if parent_id is None or seq is None else (parent_id, seq)
        self._recording = self._open_recording()
        self._spawned_by = summary.spawned_by
        self._forks: Sequence[Fork] = ()
        self._sub_agents: Sequence[SessionSummary] = ()
        self._forks_until = 0.0
        self._read: Head | None = None
        self._stretches: Sequence[Stretch] = ()
        self._final: dict[int, bytes] = {}
        """Index of a step -> its JSON, for steps that can no longer change."""
        self._final_bytes = 0

    @property
    def weight(self) -> int:
        """Return about how much memory the object uses, measured in steps."""
        return len(self._recording.steps)

    def page(self, name: AppName, known_version: str = "") -> Page:
        """Return the current page, without a body if its version is `known_version`; raises
        `SessionNotFound`."""
        head = self._store.index.head(self._id)
        version = self._version(head)
        if version == known_version:
            return Page(version, None)
        if self._read is None or head.records < self._read.records:
            self._restart()
        self._recording.advance()
        self._read = head
        self._stretches = stretches(self._recording.steps)
        return Page(version, self._body(name, head))

    def _version(self, head: Head) -> str:
        if time.monotonic() >= self._forks_until:
            self._forks = self._store.index.forks(self._id)
            self._sub_agents = self._store.index.children_of(self._id, _MOST_SUB_AGENTS)
            self._forks_until = time.monotonic() + _FORKS_EVERY_S
        sub_agents = tuple(one.id for one in self._sub_agents)
        facts = repr((head.records, head.status, head.life, head.title, self._forks, sub_agents))
        return hashlib.sha256(facts.encode("utf-8", "replace")).hexdigest()[:32]

    def _restart(self) -> None:
        """Discard all rows, because another session has replaced this one."""
        self._recording = self._open_recording()
        self._final.clear()
        self._final_bytes = 0

    def _open_recording(self) -> LiveRecording:
        return LiveRecording(self._store.database, self._id, self._parent)

    def _body(self, name: AppName, head: Head) -> bytes:
        cut = self._cut(name)
        end = tail(self._recording, head) if cut.has_tail else None
        steps = list(self._steps(cut, end))
        facts = {
            "children": list(self._children(cut, head)),
            "parent_pointer": self._parent_pointer(head) if cut.spawned_at is None else None,
            "spawning_parent_pointer": self._spawner(cut, head),
        }
        # The steps are encoded already; only the small rest is encoded here.
        return b'{"application":%b,"steps":[%b],%b' % (
            graph_json(),
            b",".join(steps),
            json.dumps(facts).encode()[1:],
        )

    def _cut(self, name: AppName) -> _Cut:
        steps = self._recording.steps
        count = len(steps)
        if name.step_id is not None:
            for stretch in self._stretches:
                if stretch.name == name.step_id:
                    first = max(stretch.first, stretch.end - PAGE_STEPS)
                    return _Cut(first, stretch.end, self._is_open(stretch), steps[stretch.first].seq)
            raise SessionNotFound(f"Session {name.session_id!r} has no step {name.step_id!r} in its plan.")
        if name.first is not None and name.last is not None:
            first = bisect_left(steps, name.first, key=lambda step: step.seq)
            end = bisect_left(steps, name.last + 1, key=lambda step: step.seq)
            end = min(end, first + PAGE_STEPS)
            return _Cut(first, end, False, steps[self._main_first()].seq if steps else 0)
        return _Cut(self._main_first(), count, True, None)

    def _is_open(self, stretch: Stretch) -> bool:
        steps = self._recording.steps
        return stretch.end == len(steps) and steps[-1].after.get("active_step_id") is not None

    def _main_first(self) -> int:
        """Return the index of the first step that is not on a page of older steps."""
        return max(0, len(self._recording.steps) // _LEAST_STEPS * _LEAST_STEPS - _LEAST_STEPS)

    def _steps(self, cut: _Cut, end: Tail | None) -> Iterator[bytes]:
        wanted = [index for index in range(cut.first, cut.end) if index not in self._final]
        renderer = StepRenderer(self._recording, min(wanted, default=cut.end), cut.end, self._texts)
        for index in range(cut.first, cut.end):
            yield self._final.get(index) or self._step(index, renderer)
        if end is not None:
            steps = self._recording.steps
            seq = steps[-1].seq + 1 if steps else self._first_seq()
            yield _encode(renderer.render_unfinished(seq, end))

    def _step(self, index: int, renderer: StepRenderer) -> bytes:
        rendered = renderer.step(index)
        if index == 0:
            rendered["attributes"][:0] = self._about(rendered["step_start_log"])
        body = _encode(rendered)
        if index < len(self._recording.steps) - 1:
            if self._final_bytes > _MOST_CACHED_BYTES:
                self._final.clear()
                self._final_bytes = 0
            self._final[index] = body
            self._final_bytes += len(body)
        return body

    def _about(self, begun: Json) -> list[Json]:
        """Return the session's settings as an attribute of its first step; an empty list for other steps."""
        settings = self._texts.value(self._settings.model_dump(mode="json"))
        return attributes(begun["sequence_id"], None, {"session": settings}, begun["start_time"])

    def _children(self, cut: _Cut, head: Head) -> Iterator[Json]:
        steps = self._recording.steps
        if cut.spawned_at is None:
            for first in range(0, cut.first, PAGE_STEPS):
                last = min(first + PAGE_STEPS, cut.first) - 1
                page = AppName(self._id, None, steps[first].seq, steps[last].seq)
                yield self._child(page, cut.first, "spawn_start", head)
            for stretch in self._stretches:
                if cut.first <= stretch.first < cut.end:
                    name = AppName(self._id, stretch.name)
                    yield self._child(name, stretch.first, "spawn_start", head)
        begun = ((fork.session_id, fork.at_seq, "fork") for fork in self._forks)
        # A sub-agent begins in the step after the newest one that was stored then.
        calls = ((one.id, one.spawned_by.sequence + 1) for one in self._sub_agents if one.spawned_by)
        for session_id, seq, event in (*begun, *((*call, "spawn_start") for call in calls)):
            at = bisect_left(steps, seq, key=lambda step: step.seq)
            if steps and cut.first <= min(at, len(steps) - 1) < cut.end:
                yield self._child(AppName(session_id), min(at, len(steps) - 1), event, head)

    def _child(self, name: AppName, index: int, event: str, head: Head) -> Json:
        step = self._recording.steps[index]
        return {
            "type": "child_application_data",
            "child": self._pointer(name, None, head),
            "event_time": step.at,
            "event_type": event,
            "sequence_id": step.seq,
        }

    def _parent_pointer(self, head: Head) -> Json | None:
        if self._parent is None:
            return None
        parent_id, seq = self._parent
        return self._pointer(AppName(parent_id), seq, head)

    def _spawner(self, cut: _Cut, head: Head) -> Json | None:
        if cut.spawned_at is not None:
            return self._pointer(AppName(self._id), cut.spawned_at, head)
        by = self._spawned_by
        return None if by is None else self._pointer(AppName(by.session_id), by.sequence + 1, head)

    def _pointer(self, name: AppName, seq: int | None, head: Head) -> Json:
        key = partition_key(self._texts.format_text(head.title))
        return {"type": "pointer_data", "app_id": app_id(name), "sequence_id": seq, "partition_key": key}

    def _first_seq(self) -> int:
        return 0 if self._parent is None else self._parent[1] + 1


def _encode(step: Json) -> bytes:
    return json.dumps(step, separators=(",", ":")).encode()
