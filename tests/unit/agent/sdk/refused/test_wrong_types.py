"""A value of a wrong type, for any argument of an agent, its methods and those of a session, is an error of
Sandbur: it has a sentence.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from sandbur import Agent, AgentSession
from sandbur.state.errors import SandburError
from sandbur.testing import ScriptedModel, temporary_store

TEXTS = ["", "\ud800", "\0"]
WRONG: list[Any] = [*TEXTS, 5, 1.5, True, b"x", object(), [5], {5: 5}, {"a": object()}, lambda: 1, str]
FITTING: dict[str, Any] = {
    "session_id": "s1",
    "message": "hello",
    "messages": (),
    "text": "hello",
    "call_id": "c1",
    "outcome": "done",
    "decisions": (),
    "number": 1,
    "title": "One",
    "path": "none.yaml",
    "moment": "post_reply",
    "hook": len,
    "function": len,
}
INTERNAL = {"run_request", "stream_request", "make_recorder", "definition_of"}
OF_ALL_AGENTS = {"add_class_hook", "remove_class_hook"}
NO_LOOP = {"run_sync"}
AGENT = [name for name in inspect.signature(Agent).parameters if name != "model"]


def list_arguments(kind: type) -> Iterator[tuple[str, str]]:
    for name, method in inspect.getmembers(kind, callable):
        if not name.startswith("_") and name not in INTERNAL | OF_ALL_AGENTS | NO_LOOP:
            for parameter in inspect.signature(method).parameters.values():
                if parameter.name != "self" and parameter.kind.name not in ("VAR_POSITIONAL", "VAR_KEYWORD"):
                    yield name, parameter.name


def call(owner: Any, name: str, argument: str, value: Any) -> Any:
    method = getattr(owner, name)
    needed = [
        one.name
        for one in inspect.signature(method).parameters.values()
        if one.default is one.empty and one.kind.name not in ("VAR_POSITIONAL", "VAR_KEYWORD")
    ]
    given = {each: FITTING[each] for each in needed} | {argument: value}
    first = [
        given.pop(one.name)
        for one in inspect.signature(method).parameters.values()
        if one.kind is one.POSITIONAL_ONLY and one.name in given
    ]
    return method(*first, **given)


async def require_sentence(work: Callable[[], Any]) -> None:
    """Check that the work ends, or raises an error of Sandbur; any other exception passes."""
    ended: Any = None
    with suppress(SandburError):
        async with asyncio.timeout(60):
            found = work()
            if isinstance(found, AsyncIterator):
                async for _ in cast("AsyncIterator[object]", found):
                    pass
            elif inspect.isawaitable(found):
                ended = await found
            elif isinstance(found, AgentSession):
                async with cast("AgentSession[Any]", found):
                    pass
    assert getattr(getattr(ended, "error", None), "code", "") != "internal"


@pytest.mark.parametrize("argument", AGENT)
async def test_a_wrong_value_for_an_argument_of_an_agent_has_a_sentence(argument: str) -> None:
    for value in WRONG:
        given: dict[str, Any] = {"store": "memory:", argument: value}
        await require_sentence(lambda given=given: Agent(ScriptedModel(["Hi."]), **given).run("hello"))


@pytest.mark.parametrize(("name", "argument"), [*list_arguments(Agent)])
async def test_a_wrong_value_for_an_argument_of_a_method_of_an_agent_has_a_sentence(
    name: str, argument: str, tmp_path: Path
) -> None:
    with temporary_store() as store:
        agent = Agent(ScriptedModel(lambda request: "Hi."), store=store.url, env=store.env, cwd=tmp_path)
        for value in WRONG:
            await require_sentence(lambda value=value: call(agent, name, argument, value))


@pytest.mark.parametrize(("name", "argument"), [*list_arguments(AgentSession)])
async def test_a_wrong_value_for_an_argument_of_a_method_of_a_session_has_a_sentence(
    name: str, argument: str
) -> None:
    agent = Agent(ScriptedModel(lambda request: "Hi."), store="memory:")
    async with agent, agent.session("s1") as session:
        for value in WRONG:
            await require_sentence(lambda value=value: call(session, name, argument, value))
