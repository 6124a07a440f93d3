"""Turns of a hub that fail, and calls that a hub cannot serve: a block that goes on can still be repeated."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.models.hub_cast import Cast, count_own, hear_all, write

from sandbur import Agent, MessageHub, ModelRequest, RunFailed, Unreachable, tool
from sandbur.state.errors import UsageError
from sandbur.testing import TemporaryStore, ToolCall

Play = Callable[[MessageHub], Awaitable[Any]]


def fail_times(count: int) -> Callable[[ModelRequest], str]:
    """Return a reply of b that fails so many times."""
    left = [f"Away {number}." for number in range(count)]

    def answer(request: ModelRequest) -> str:
        if left:
            raise Unreachable(left.pop(0))
        return f"b{count_own(request)}"

    return answer


def interrupt_after(play: Play) -> Play:
    async def run(hub: MessageHub) -> None:
        await play(hub)
        raise KeyboardInterrupt

    return run


def make_cast(store: TemporaryStore, failures: int) -> tuple[Cast, list[Any]]:
    cast = Cast(store)
    return cast, [cast.make("a"), cast.make("b", fail_times(failures)), cast.make("c")]


async def ask_past_failures(hub: MessageHub) -> list[str]:
    """Let each participant speak by its name, and note what failed."""
    noted: list[str] = []
    for name in "abc":
        try:
            noted.append((await hub[name].run("go")).text)
        except RunFailed as error:
            noted.append(str(error))
    return noted


def test_a_block_that_went_on_after_a_failure_is_repeated_with_the_failure(store: TemporaryStore) -> None:
    cast, agents = make_cast(store, 1)
    noted: list[list[str]] = []

    async def play(hub: MessageHub) -> None:
        noted.append(await ask_past_failures(hub))

    with pytest.raises(KeyboardInterrupt):
        hear_all(agents, interrupt_after(play))
    assert cast.asked == ["a", "b", "c"]
    assert hear_all(agents, play)[0] == "a:a0 c:c0"
    assert cast.asked == ["a", "b", "c"]
    assert noted[0] == noted[1]
    assert "Away 0." in noted[0][1]


def test_a_failure_after_which_nothing_happened_is_tried_again(store: TemporaryStore) -> None:
    cast, agents = make_cast(store, 1)

    async def play(hub: MessageHub) -> None:
        await hub["a"].run("go")
        try:
            await hub["b"].run("go")
        except RunFailed:
            raise KeyboardInterrupt from None

    with pytest.raises(KeyboardInterrupt):
        hear_all(agents, play)
    assert hear_all(agents, play)[0] == "a:a0 b:b0"
    assert cast.asked == ["a", "b", "b"]


def test_a_turn_that_the_program_tries_again_goes_on_where_it_failed(store: TemporaryStore) -> None:
    cast, agents = make_cast(store, 2)
    errors: list[str] = []

    async def play(hub: MessageHub) -> None:
        for _ in range(3):
            try:
                await hub["b"].run("go")
                break
            except RunFailed as error:
                errors.append(str(error))

    with pytest.raises(KeyboardInterrupt):
        hear_all(agents, interrupt_after(play))
    assert hear_all(agents, play)[2] == "go b0"
    assert cast.asked == ["b", "b", "b"]
    assert [error[:7] for error in errors] == ["Away 0.", "Away 1."] * 2


def test_all_who_are_asked_at_the_same_time_are_asked_again_if_one_failed(store: TemporaryStore) -> None:
    _, agents = make_cast(store, 1)

    async def play(hub: MessageHub) -> None:
        with pytest.raises(RunFailed, match=r"Away 0\."):
            await hub.ask_all("vote")
        await hub.ask_all("vote")

    with pytest.raises(KeyboardInterrupt):
        hear_all(agents, interrupt_after(play))
    assert hear_all(agents, play) == ["", "vote a0", "vote b0", "vote c0"]


def test_a_participant_that_failed_is_the_next_one_again(store: TemporaryStore) -> None:
    cast, agents = make_cast(store, 1)

    async def play(hub: MessageHub) -> None:
        with pytest.raises(RunFailed):
            await hub.run(1, "go")
        await hub.next("go")
        await hub.next("go")

    with pytest.raises(KeyboardInterrupt):
        hear_all(agents, interrupt_after(play))
    assert hear_all(agents, play)[0] == "a:a0 b:b0 c:c0"
    assert cast.asked == ["a", "b", "b", "c"]


def test_a_participant_that_failed_hears_with_its_next_turn_what_was_said_meanwhile(
    store: TemporaryStore,
) -> None:
    _, agents = make_cast(store, 1)

    async def play(hub: MessageHub) -> None:
        await ask_past_failures(hub)
        await hub["b"].run("now")

    assert hear_all(agents, play)[2] == "a:a0 go (interrupted before an answer) c:c0 now b1"


def test_a_participant_that_failed_and_left_hears_everything_in_order_if_it_comes_back(
    store: TemporaryStore,
) -> None:
    _, agents = make_cast(store, 1)

    async def play(hub: MessageHub) -> None:
        await ask_past_failures(hub)
        await hub.remove("b")
        await hub.add(agents[1])
        await hub["a"].run("go")
        await hub["b"].run("now")

    assert hear_all(agents, play)[2] == "a:a0 go (interrupted before an answer) c:c0 a:a1 now b1"


def test_a_turn_that_ran_out_of_time_is_repeated_as_a_timeout(store: TemporaryStore) -> None:
    cast = Cast(store)

    async def wait(request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return "b0"

    agents = [cast.make("a"), cast.make("b", wait)]

    async def play(hub: MessageHub) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(hub["b"].run("go"), 0.2)
        await hub["a"].run("go")

    with pytest.raises(KeyboardInterrupt):
        hear_all(agents, interrupt_after(play))
    asked = list(cast.asked)
    assert hear_all(agents, play)[0] == "a:a0"
    assert cast.asked == asked


def test_an_argument_that_the_session_refuses_is_refused_again(store: TemporaryStore) -> None:
    cast, agents = make_cast(store, 0)

    async def play(hub: MessageHub) -> None:
        with pytest.raises(UsageError, match="nothing"):
            await hub["b"].run("go", tool_choice="nothing")
        await hub.run(1, "go")

    with pytest.raises(KeyboardInterrupt):
        hear_all(agents, interrupt_after(play))
    assert hear_all(agents, play)[0] == "a:a0 b:b0 c:c0"
    assert cast.asked == ["a", "b", "c"]


def test_secrets_of_a_failure_do_not_reach_the_record(store: TemporaryStore) -> None:
    store.env["MY_API_KEY"] = "sk-verysecretvalue123456"
    cast = Cast(store)

    def fail(request: ModelRequest) -> str:
        raise Unreachable("The key sk-verysecretvalue123456 is refused.", "Renew sk-verysecretvalue123456.")

    agents = [cast.make("a"), cast.make("b", fail), cast.make("c")]
    hear_all(agents, ask_past_failures)
    (record,) = [one for one in asyncio.run(agents[0].history("hub")) if "refused" in one.text]
    assert "verysecret" not in str(record)


@pytest.mark.parametrize(
    "call",
    [
        lambda hub: hub.broadcast("Hello."),
        lambda hub: hub["b"].run("go"),
        lambda hub: hub.next(),
        lambda hub: hub.add(Agent(name="d")),
    ],
)
def test_a_tool_of_a_participant_that_calls_its_hub_is_refused(store: TemporaryStore, call: Play) -> None:
    hubs: list[MessageHub] = []
    refused: list[str] = []

    @tool(effect="read")
    async def speak() -> str:
        """Speak in the hub."""
        try:
            await call(hubs[0])
        except UsageError as error:
            refused.append(str(error))
        return "spoken"

    def answer(request: ModelRequest) -> Any:
        return "done" if any(one.tool_results for one in request.messages) else ToolCall("speak")

    async def play(hub: MessageHub) -> None:
        hubs.append(hub)
        await asyncio.wait_for(hub["a"].run("go"), 60)
        await hub["b"].run("go")

    cast = Cast(store)
    agents = [cast.make("a", answer, tools=[speak]), cast.make("b")]
    assert hear_all(agents, play)[0] == "a:done b:b0"
    assert len(refused) == 1
    assert refused[0].startswith("A turn of this hub runs now")


def test_a_tool_of_a_participant_talks_in_another_hub(store: TemporaryStore) -> None:
    cast = Cast(store)

    @tool(effect="read")
    async def consult() -> str:
        """Consult the others."""
        async with MessageHub(cast.make_all("xy")) as inner:
            await inner.run()
            return write(inner.transcript)

    def answer(request: ModelRequest) -> Any:
        results = [one for message in request.messages for one in message.tool_results]
        return results[-1].content if results else ToolCall("consult")

    agents = [cast.make("a", answer, tools=[consult])]
    assert hear_all(agents, lambda hub: hub.run())[0] == "a:x:x0 y:y0"


def test_a_participant_that_leaves_leaves_the_open_groups(store: TemporaryStore) -> None:
    async def play(hub: MessageHub) -> None:
        later = hub.group(["a", "c"])
        async with hub.group(["a", "b", "c"]) as group:
            await group.next("go")
            await hub.remove("c")
            assert len(group) == 2
            await group.run(1, "go")
            with pytest.raises(UsageError, match="'c' takes no part"):
                await group["c"].run("go")
        async with later:
            await later.run(1, "go")

    cast = Cast(store)
    hear_all(cast.make_all("abc"), play)
    assert cast.asked == ["a", "b", "a", "a"]


@pytest.mark.parametrize(("leaver", "asked"), [("a", "abc"), ("c", "ab")])
def test_one_that_leaves_in_a_round_costs_no_other_its_turn(
    store: TemporaryStore, leaver: str, asked: str
) -> None:
    cast = Cast(store)

    async def play(hub: MessageHub) -> None:
        await asyncio.gather(hub.run(1, "go"), remove_later(hub))

    async def remove_later(hub: MessageHub) -> None:
        await speaking.wait()
        removing.set()
        await hub.remove(leaver)

    async def answer(request: ModelRequest) -> str:
        speaking.set()
        await removing.wait()
        return "b0"

    speaking, removing = asyncio.Event(), asyncio.Event()
    hear_all([cast.make("a"), cast.make("b", answer), cast.make("c")], play)
    assert "".join(cast.asked) == asked
