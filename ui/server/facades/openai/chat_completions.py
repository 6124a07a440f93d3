"""Models and chat completions: a conversation that is sent as a whole each time is one session."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.responses import Response

from .....agent.sdk.agent import Agent
from ...answers import JsonAnswer, RequestRefused
from ...routes.route import ApiRequest
from .contents import read_conversation
from .conversations import AnswerPlace, ClientConversation
from .errors import shape_error
from .forms import ChatBody
from .outcomes import TurnOutcome
from .turn_follower import TurnFollower
from .turn_response import JsonChunk, TurnResponse

_OWNER = "sandbur"


async def list_models(request: ApiRequest) -> Response:
    """Answer with the agents of the server."""
    return JsonAnswer({"object": "list", "data": [_describe(*one) for one in request.service.agents.items()]})


async def show_model(request: ApiRequest) -> Response:
    """Answer with one agent."""
    name = require_model(request, request.path["model"])
    return JsonAnswer(_describe(name, request.service.agents[name]))


def _describe(name: str, agent: Agent[Any]) -> dict[str, Any]:
    """Return an agent as a model; its id is the name by which the server has it."""
    about = {"name": agent.name or name, "description": agent.description}
    return {"id": name, "object": "model", "created": 0, "owned_by": _OWNER, **about}


def require_model(request: ApiRequest, name: str) -> str:
    """Return the name of an agent; raises `RequestRefused` if the server does not have it."""
    if name not in request.service.agents:
        known = ", ".join(request.service.agents)
        raise RequestRefused(404, "model_not_found", f"There is no model {name[:60]!r} here, but: {known}.")
    return name


def make_tags(metadata: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return the metadata of a request as the tags of its session."""
    return tuple(f"{name}={value}" for name, value in (metadata or {}).items())


async def complete_chat(request: ApiRequest) -> Response:
    """Send the newest message of a conversation to its session, and answer with what its run says."""
    body, service = request.read_body(ChatBody), request.service
    agent = require_model(request, body.model)
    tags, sent = make_tags(body.metadata), read_conversation(body.messages)
    conversation = ClientConversation(request, agent, body.user or "", tags, sent)
    service.require_stream_place()
    async with service.lock_conversations(request.who.tenant):
        place = await conversation.pin()
        follower = TurnFollower(request, place)
    with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
    form = ChatForm(body.model, place, with_usage)
    return TurnResponse(follower, form, request.base_url, bool(body.stream), conversation.note_answer)


class ChatForm:
    """Writes an answer as a chat completion or as its chunks."""

    last = "data: [DONE]\n\n"

    def __init__(self, model: str, place: AnswerPlace, with_usage: bool) -> None:
        self._with_usage = with_usage
        self._fixed = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model,
            "sandbur": {"session_id": place.session_id},
        }

    def encode(self, chunk: JsonChunk) -> str:
        return f"data: {json.dumps(chunk)}\n\n"

    def make_whole(self, outcome: TurnOutcome) -> JsonChunk:
        message: JsonChunk = {
            "role": "assistant",
            "content": outcome.whole_text,
            "refusal": None,
            "annotations": [],
        }
        choice: JsonChunk = {
            "index": 0,
            "message": message,
            "finish_reason": _find_reason(outcome),
            "logprobs": None,
        }
        usage = _count_tokens(outcome)
        return {**self._fixed, "object": "chat.completion", "choices": [choice], "usage": usage}

    def begin(self) -> Iterator[JsonChunk]:
        yield self._make_chunk({"role": "assistant", "content": ""})

    def add(self, piece: str) -> Iterator[JsonChunk]:
        yield self._make_chunk({"content": piece})

    def end(self, outcome: TurnOutcome) -> Iterator[JsonChunk]:
        yield self._make_chunk({}, _find_reason(outcome))
        if self._with_usage:
            yield {**self._make_chunk({}), "choices": [], "usage": _count_tokens(outcome)}

    def fail(self, refused: RequestRefused) -> Iterator[JsonChunk]:
        yield shape_error(refused.status, refused.kind, refused.message, refused.hint)

    def _make_chunk(self, delta: JsonChunk, reason: str | None = None) -> JsonChunk:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        usage = {"usage": None} if self._with_usage else {}
        return {**self._fixed, "object": "chat.completion.chunk", "choices": [choice], **usage}


def _find_reason(outcome: TurnOutcome) -> str:
    return "length" if outcome.is_cut else "stop"


def _count_tokens(outcome: TurnOutcome) -> JsonChunk:
    given, made = outcome.count("input_tokens"), outcome.count("output_tokens")
    return {
        "prompt_tokens": given,
        "completion_tokens": made,
        "total_tokens": given + made,
        "prompt_tokens_details": {"cached_tokens": outcome.count("cache_read_tokens")},
    }
