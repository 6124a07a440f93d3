"""Small Burr applications, each with sync or with async actions."""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from burr.core import Application, ApplicationBuilder, ApplicationContext, State, action
from burr.core.action import streaming_action
from burr.core.parallelism import MapStates
from burr.integrations.pydantic import PydanticTypingSystem
from pydantic import BaseModel, Field
from support.stores.burr_persisters import Subject, await_result


def acting(function: Callable[..., Any], is_async: bool, **fields: list[str]) -> Any:
    """Return an action from a plain function: sync, or async if `is_async` is true."""

    @functools.wraps(function)
    async def in_async(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return action(**fields)(in_async if is_async else function)


def count(state: State[Any]) -> State[Any]:
    return state.update(n=state["n"] + 1)


def report(state: State[Any]) -> State[Any]:
    return state.append(reports=f"n is {state['n']}")


def say(state: State[Any], text: str) -> State[Any]:
    return state.append(chat_history={"role": "user", "content": text})


def answer(state: State[Any]) -> State[Any]:
    question = state["chat_history"][-1]["content"]
    return state.append(chat_history={"role": "assistant", "content": f"You said: {question}"})


def risky(state: State[Any], weather: str) -> State[Any]:
    if weather == "bad":
        raise RuntimeError("no picnic")
    return state.update(picnic=weather)


async def build(
    store: Subject,
    persister: Any,
    actions: dict[str, Any],
    transitions: list[tuple[str, str]],
    default_state: dict[str, Any],
    *,
    app_id: str = "app",
    sequence_id: int | None = None,
    typed: type[BaseModel] | None = None,
    **initialize: Any,
) -> Application[Any]:
    """Build an application that resumes from its persister and saves to it."""
    options = {"resume_at_next_action": True, "default_entrypoint": next(iter(actions)), **initialize}
    builder = (
        ApplicationBuilder()
        .with_actions(**actions)
        .with_transitions(*transitions)
        .initialize_from(persister, default_state=default_state, **options)
        .with_state_persister(persister)
        .with_identifiers(app_id=app_id, partition_key="p", sequence_id=sequence_id)
    )
    if typed is not None:
        builder = builder.with_typing(PydanticTypingSystem(typed))
    return await await_result(builder.abuild() if store.is_async else builder.build())


async def counter(store: Subject, persister: Any, **options: Any) -> Application[Any]:
    actions = {
        "count": acting(count, store.is_async, reads=["n"], writes=["n"]),
        "report": acting(report, store.is_async, reads=["n"], writes=["reports"]),
    }
    around = [("count", "report"), ("report", "count")]
    return await build(store, persister, actions, around, {"n": 0, "reports": []}, **options)


async def chat(store: Subject, persister: Any, **options: Any) -> Application[Any]:
    actions = {
        "say": acting(say, store.is_async, reads=[], writes=["chat_history"]),
        "answer": acting(answer, store.is_async, reads=["chat_history"], writes=["chat_history"]),
    }
    around = [("say", "answer"), ("answer", "say")]
    return await build(store, persister, actions, around, {"chat_history": []}, **options)


async def picnic(store: Subject, persister: Any, **options: Any) -> Application[Any]:
    actions = {
        "count": acting(count, store.is_async, reads=["n"], writes=["n"]),
        "risky": acting(risky, store.is_async, reads=[], writes=["picnic"]),
    }
    return await build(
        store, persister, actions, [("count", "risky"), ("risky", "count")], {"n": 0}, **options
    )


async def step(app: Application[Any], store: Subject, **inputs: Any) -> str:
    """Run one step; return the name of its action."""
    done = await await_result(app.astep(inputs=inputs) if store.is_async else app.step(inputs=inputs))
    return done[0].name


class Message(BaseModel):
    role: str
    content: str


class Chat(BaseModel):
    chat_history: list[Message] = Field(default_factory=list[Message])
    title: str = ""


def name_it(state: Chat) -> Chat:
    state.chat_history.append(Message(role="user", content=f"message {len(state.chat_history)}"))
    state.title = state.chat_history[0].content
    return state


async def typed_chat(store: Subject, persister: Any) -> Application[Any]:
    fields = ["chat_history", "title"]

    @functools.wraps(name_it)
    async def in_async(state: Chat) -> Chat:
        return name_it(state)

    named = action.pydantic(reads=fields, writes=fields)(in_async if store.is_async else name_it)
    return await build(
        store, persister, {"name_it": named}, [("name_it", "name_it")], dict(Chat()), typed=Chat
    )


def square(state: State[Any]) -> State[Any]:
    return state.update(square=state["item"] ** 2)


class Squares(MapStates):
    """Computes the square of each item, each in its own child application."""

    def __init__(self, is_async: bool) -> None:
        super().__init__()
        self._is_async = is_async

    def action(self, state: State[Any], inputs: dict[str, Any]) -> Any:
        return acting(square, self._is_async, reads=["item"], writes=["square"])

    def states(self, state: State[Any], context: ApplicationContext, inputs: dict[str, Any]) -> Iterator[Any]:
        for item in state["items"]:
            yield state.update(item=item)

    def reduce(self, state: State[Any], states: Any) -> Any:
        if inspect.isasyncgen(states):
            return self._areduce(state, states)
        return state.update(squares=[child["square"] for child in states])

    async def _areduce(self, state: State[Any], states: AsyncIterator[State[Any]]) -> State[Any]:
        return state.update(squares=[child["square"] async for child in states])

    def is_async(self) -> bool:
        return self._is_async

    @property
    def reads(self) -> list[str]:
        return ["items"]

    @property
    def writes(self) -> list[str]:
        return ["squares"]


async def squares(store: Subject, persister: Any) -> Application[Any]:
    mapped = {
        "squares": Squares(store.is_async),
        "count": acting(count, store.is_async, reads=["n"], writes=["n"]),
    }
    return await build(store, persister, mapped, [("squares", "count")], {"items": list(range(6)), "n": 0})


@streaming_action(reads=[], writes=["text"])
def stream(state: State[Any]) -> Iterator[Any]:
    for word in ("one ", "two ", "three"):
        yield {"text": word}, None
    yield {"text": "one two three"}, state.update(text="one two three")


@streaming_action(reads=[], writes=["text"])
async def astream(state: State[Any]) -> AsyncIterator[Any]:
    for word in ("one ", "two ", "three"):
        yield {"text": word}, None
    yield {"text": "one two three"}, state.update(text="one two three")
