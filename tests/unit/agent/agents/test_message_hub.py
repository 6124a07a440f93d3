"""Message hubs: what one participant says the others hear, each in a session of its own."""

import asyncio
from typing import Any, Literal

import pytest
from support.models.hub_cast import Cast, count_own, hear_all, write
from support.screens.reports import make_report

from sandbur import MessageHub, Middleware, ModelRequest, RunFailed, Unreachable, tool
from sandbur.state.errors import SessionMoved, UsageError, WrongType
from sandbur.state.store.store import Store
from sandbur.testing import TemporaryStore, ToolCall
from sandbur.ui.commands.sessions.show import view_lines


def test_what_one_says_the_others_hear_with_its_name(store: TemporaryStore) -> None:
    assert hear_all(Cast(store).make_all("abc"), lambda hub: hub.run(1, "go"), announcement="Hello.") == [
        "Hello. a:a0 b:b0 c:c0",
        "Hello. go a0 b:b0 c:c0",
        "Hello. a:a0 go b0 c:c0",
        "Hello. a:a0 b:b0 go c0",
    ]
    opened = Store.open(store.url)
    written, shown = make_report(opened, "md", "hub"), list(view_lines(opened.show("hub")))
    opened.close()
    assert [one in written for one in ("### a (", "### b (", "### c (")] == [True] * 3
    assert [line[2:] for line in shown if line[2:].startswith("b")] == ["b: b0"]


def test_a_participant_speaks_when_the_program_lets_it(store: TemporaryStore) -> None:
    async def play(hub: MessageHub) -> None:
        said = await hub["b"].run("you")
        assert (said.name, said.text, said.output) == ("b", "b0", "b0")
        assert await hub.next("next") is not None

    assert hear_all(Cast(store).make_all("ab"), play)[0] == "b:b0 a:a0"


def test_what_a_participant_answers_the_program_alone_nobody_hears(store: TemporaryStore) -> None:
    async def play(hub: MessageHub) -> None:
        assert (await hub["a"].ask("secret?")).text == "a0"
        votes = await hub.ask_all("vote")
        assert {name: vote.text for name, vote in votes.items()} == {"a": "a1", "b": "b0"}

    assert hear_all(Cast(store).make_all("ab"), play) == ["", "secret? a0 vote a1", "vote b0"]


def test_participants_that_are_asked_together_answer_at_the_same_time(store: TemporaryStore) -> None:
    meeting = asyncio.Barrier(3)

    async def meet(request: ModelRequest) -> str:
        await meeting.wait()
        return "here"

    cast = Cast(store)
    hear_all([cast.make(name, meet) for name in "abc"], lambda hub: hub.ask_all("all"))
    assert sorted(cast.asked) == ["a", "b", "c"]


def test_a_group_talks_among_itself(store: TemporaryStore) -> None:
    async def play(hub: MessageHub) -> None:
        async with hub.group(["a", "c"], "Psst.") as group:
            await group.run(1, "go")
            with pytest.raises(UsageError, match="'b' takes no part"):
                group["b"]
        await hub["b"].run("go")

    assert hear_all(Cast(store).make_all("abc"), play)[1:] == [
        "Psst. go a0 c:c0 b:b0",
        "go b0",
        "Psst. a:a0 go c0 b:b0",
    ]


def test_an_agent_that_comes_later_hears_what_follows_and_one_that_leaves_what_came_before(
    store: TemporaryStore,
) -> None:
    cast = Cast(store)
    a, b, c = cast.make_all("abc")

    async def play(hub: MessageHub) -> None:
        await hub.next("go")
        await hub.add(c)
        await hub.remove("b")
        await hub.run(1, "go")

    assert hear_all([a, b], play) == ["a:a0 c:c0 a:a1", "go a0 c:c0 go a1", "a:a0"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_chooses_who_speaks_and_ends_the_talk(store: TemporaryStore, is_async: bool) -> None:
    def choose(talk: Any) -> str | None:
        said = len(talk.transcript)
        return "bba"[said] if said < 3 else None

    async def choose_later(talk: Any) -> str | None:
        return choose(talk)

    order = choose_later if is_async else choose
    agents = Cast(store).make_all("ab")
    assert hear_all(agents, lambda hub: hub.run(5), order=order)[0] == "b:b0 b:b1 a:a0"


def test_an_agent_that_hears_everything_chooses_who_speaks(store: TemporaryStore) -> None:
    heard: list[str] = []

    def moderate(request: ModelRequest) -> str:
        heard.append(write(tuple(one for one in request.messages if one.name)))
        return ['{"value": "b"}', '{"value": "a"}', '{"value": null}'][len(heard) - 1]

    cast = Cast(store)
    moderator = cast.make("host", moderate)
    transcript, *_ = hear_all(cast.make_all("ab"), lambda hub: hub.run(5), order=moderator)
    assert transcript == "b:b0 a:a0"
    assert heard == ["", "b:b0", "b:b0 a:a0"]


def test_a_turn_has_an_output_type(store: TemporaryStore) -> None:
    kinds: list[Any] = []

    async def play(hub: MessageHub) -> None:
        kinds.append((await hub["a"].run("which?", output=Literal["x", "y"])).output)

    cast = Cast(store)
    assert hear_all([cast.make("a", lambda _: '{"value": "y"}')], play)[0] == 'a:"y"'
    assert kinds == ["y"]


def test_a_hub_that_is_opened_again_goes_on_with_its_participants(store: TemporaryStore) -> None:
    agents = Cast(store).make_all("ab")
    hear_all(agents, lambda hub: hub.run(1, "go"))
    assert hear_all(agents, lambda hub: hub.run(1, "go"))[1] == "go a0 b:b0 go a1 b:b1"


def test_a_block_that_failed_repeats_nothing_and_goes_on(store: TemporaryStore) -> None:
    cast, is_down = Cast(store), [True]

    def answer(request: ModelRequest) -> Any:
        if is_down:
            raise Unreachable(is_down.pop() and "The provider is away.")
        return f"b{count_own(request)}"

    agents = [cast.make("a"), cast.make("b", answer), cast.make("c")]
    outputs: list[str] = []

    async def play(hub: MessageHub) -> None:
        outputs.append((await hub["a"].ask("secret?")).text)
        await hub.run(1, "go")

    with pytest.raises(RunFailed, match="The provider is away"):
        hear_all(agents, play, announcement="Hello.")
    assert hear_all(agents, play, announcement="Hello.") == [
        "Hello. a:a1 b:b0 c:c0",
        "Hello. secret? a0 go a1 b:b0 c:c0",
        "Hello. a:a1 go b0 c:c0",
        "Hello. a:a1 b:b0 go c0",
    ]
    assert cast.asked == ["a", "a", "b", "b", "c"]
    assert outputs == ["a0", "a0"]


def test_a_program_that_does_something_else_than_before_reads_what_it_did(store: TemporaryStore) -> None:
    agents = Cast(store).make_all("ab")

    async def fail(hub: MessageHub) -> None:
        await hub.broadcast("One.")
        raise ZeroDivisionError

    async def do_other(hub: MessageHub) -> None:
        await hub.broadcast("Two.")

    with pytest.raises(ZeroDivisionError):
        hear_all(agents, fail)
    with pytest.raises(UsageError, match="there it made an announcement"):
        hear_all(agents, do_other)
    assert hear_all(agents, do_other, repeats=False) == ["One. Two."] * 3


def test_a_call_of_a_participant_waits_for_approval_and_the_block_goes_on(store: TemporaryStore) -> None:
    done: list[str] = []

    @tool
    def buy() -> str:
        """Buy it."""
        done.append("bought")
        return "bought"

    def answer(request: ModelRequest) -> Any:
        results = [one for message in request.messages for one in message.tool_results]
        return results[-1].content if results else ToolCall("buy")

    agent = Cast(store).make("a", answer, tools=[buy])
    with pytest.raises(RunFailed, match="it waits for a decision about buy") as failed:
        hear_all([agent], lambda hub: hub.run(1))
    session_id = failed.value.hint.removeprefix("Its session is ").rstrip(".")
    asyncio.run(agent.approve(session_id))
    assert hear_all([agent], lambda hub: hub.run(1))[0] == "a:bought"
    assert done == ["bought"]


def test_a_participant_whose_call_is_denied_still_speaks(store: TemporaryStore) -> None:
    @tool
    def buy() -> str:
        """Buy it."""
        return "bought"

    def answer(request: ModelRequest) -> Any:
        return "I may not" if any(one.tool_results for one in request.messages) else ToolCall("buy")

    agent = Cast(store).make("a", answer, tools=[buy])
    deny: Any = {"on_approval": lambda call: "no"}
    assert hear_all([agent], lambda hub: hub.run(1, **deny))[0] == "a:I may not"


def test_a_hub_works_in_the_memory_of_the_process(store: TemporaryStore) -> None:
    cast = Cast(store)
    agents = [cast.make(name).clone(store="memory:") for name in "ab"]

    async def run() -> str:
        async with MessageHub(agents) as hub:
            await hub.run()
            return write(hub.transcript)

    assert asyncio.run(run()) == "a:a0 b:b0"


def test_a_function_of_the_program_approves_calls_of_a_turn(store: TemporaryStore) -> None:
    @tool
    def buy() -> str:
        """Buy it."""
        return "bought"

    def answer(request: ModelRequest) -> Any:
        results = [one for message in request.messages for one in message.tool_results]
        return results[-1].content if results else ToolCall("buy")

    agent = Cast(store).make("a", answer, tools=[buy])
    approve: Any = {"on_approval": lambda call: True}
    assert hear_all([agent], lambda hub: hub.run(1, **approve))[0] == "a:bought"


class Whisper(Middleware):
    def rewrite_observed(self, text: str) -> str:
        return text.lower()


def test_middleware_rewrites_what_its_agent_hears(store: TemporaryStore) -> None:
    cast = Cast(store)
    agents = [cast.make("a"), cast.make("b", middleware=[Whisper()])]
    assert hear_all(agents, lambda hub: hub.broadcast("HELLO"))[1:] == ["HELLO", "hello"]


def test_secrets_of_an_announcement_do_not_reach_a_history(store: TemporaryStore) -> None:
    store.env["MY_API_KEY"] = "sk-verysecretvalue123456"
    histories = hear_all(
        Cast(store).make_all("ab"), lambda hub: hub.broadcast("The key is sk-verysecretvalue123456.")
    )
    assert not any("verysecret" in one for one in histories)


def test_other_sessions_of_a_participant_know_nothing_of_the_hub(store: TemporaryStore) -> None:
    agents = Cast(store).make_all("ab")
    hear_all(agents, lambda hub: hub.run(1))
    assert agents[0].run_sync("hi", session_id="other").output == "a0"
    assert write(asyncio.run(agents[0].history("other"))) == "hi a0"


def test_a_hub_is_held_by_the_program_that_has_it_open(store: TemporaryStore) -> None:
    agents = Cast(store).make_all("a")

    async def open_again(hub: MessageHub) -> None:
        async with MessageHub(agents, session_id=hub.id) as second:
            await second.run(1)
        await hub.run(1)

    with pytest.raises(SessionMoved, match="Session hub was continued by another process"):
        hear_all(agents, open_again)


def test_a_participant_of_a_closed_hub_does_not_speak(store: TemporaryStore) -> None:
    hub = MessageHub(Cast(store).make_all("a"))
    with pytest.raises(UsageError, match="This hub is not open"):
        asyncio.run(hub.run())


def test_wrong_participants_are_refused(store: TemporaryStore) -> None:
    cast = Cast(store)
    a, make = cast.make("a"), cast.make
    hub: Any = MessageHub
    with pytest.raises(UsageError, match="A hub needs an agent"):
        hub([])
    with pytest.raises(UsageError, match="two agents called 'a'"):
        hub([a, make("a")])
    with pytest.raises(UsageError, match="needs a name"):
        hub([make("")])
    with pytest.raises(WrongType, match="A hub takes agents, not str"):
        hub(["a"])
    with pytest.raises(WrongType, match=r"takes a list of agents, not Agent\. Write MessageHub\(\[a, b\]\)"):
        hub(a, make("b"))
    with pytest.raises(UsageError, match=r"'x' takes no part\. There are: a\."):
        hub([a])["x"]


def test_wrong_options_of_a_hub_are_refused(store: TemporaryStore) -> None:
    a = Cast(store).make("a")
    hub: Any = MessageHub
    with pytest.raises(WrongType, match=r"`order` is not 'random'\. It takes \"declared\", a function"):
        hub([a], order="random")
    with pytest.raises(WrongType, match="The announcement of a hub is a text, not 5"):
        hub([a], 5)
    with pytest.raises(WrongType, match="`session_id` is a text, not 7"):
        hub([a], session_id=7)


async def test_wrong_arguments_of_a_turn_are_refused(store: TemporaryStore) -> None:
    async with MessageHub(Cast(store).make_all("ab")) as opened:
        hub: Any = opened
        for name, value in {"user": "me", "tags": ["x"], "session_id": "s", "message_history": []}.items():
            with pytest.raises(UsageError, match=f"A turn of a hub takes no `{name}`"):
                await hub["a"].run("go", **{name: value})
        with pytest.raises(WrongType, match="The message of a turn is a text, not 5"):
            await hub.ask_all(5)
        with pytest.raises(WrongType, match="An announcement is a text, not None"):
            await hub.broadcast(None)
        with pytest.raises(WrongType, match="The name of a speaker is a text, not 5"):
            await hub.broadcast("Hello.", name=5)
        for rounds in ("go", -1, True):
            with pytest.raises(WrongType, match="`rounds` is a whole number"):
                await hub.run(rounds)


async def test_a_group_that_cannot_be_is_refused(store: TemporaryStore) -> None:
    async with MessageHub(Cast(store).make_all("ab")) as opened:
        hub: Any = opened
        for names in ("ab", 5):
            with pytest.raises(WrongType, match="A group takes a list of names"):
                hub.group(names)
        for names in ([], ["a", "a"]):
            with pytest.raises(UsageError, match="A group needs a participant, and each name once"):
                hub.group(names)
        with pytest.raises(WrongType, match="`order` of a group is not 'random'"):
            hub.group(["a"], order="random")
        with pytest.raises(WrongType, match="The announcement of a group is a text"):
            hub.group(["a"], 5)


async def test_a_group_talks_only_in_its_block(store: TemporaryStore) -> None:
    async with MessageHub(Cast(store).make_all("abc")) as hub:
        group = hub.group(["a", "b"])
        with pytest.raises(UsageError, match="This group is not open"):
            await group.run()
        async with group:
            async with group.group(["b"]) as part:
                assert [one.text for one in await part.run()] == ["b0"]
            with pytest.raises(UsageError, match="This group was opened before"):
                await group.__aenter__()
        with pytest.raises(UsageError, match="This group is not open"):
            await group.ask_all("Anybody here?")


async def test_a_hub_is_a_collection_of_its_participants(store: TemporaryStore) -> None:
    hub = MessageHub(Cast(store).make_all("ab"))
    assert [one.name for one in hub] == ["a", "b"]
    assert "a" in hub
    assert "x" not in hub
    assert len(hub) == 2


async def test_the_transcript_can_be_read_after_the_block(store: TemporaryStore) -> None:
    hub = MessageHub(Cast(store).make_all("ab"), "Hello.")
    with pytest.raises(UsageError, match="This hub is not open"):
        _ = hub.transcript
    async with hub:
        await hub.run()
    assert write(hub.transcript) == "Hello. a:a0 b:b0"


async def test_a_program_sees_at_the_beginning_whether_an_earlier_block_ended(store: TemporaryStore) -> None:
    cast = Cast(store)
    seen: list[str] = []

    async def play(dies: bool) -> None:
        async with MessageHub(cast.make_all("ab"), "Hello.", session_id="hub") as hub:
            seen.append(write(hub.transcript))
            if len(hub.transcript) == 1:
                await hub.run()
            if dies:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await play(dies=True)
    await play(dies=False)
    await play(dies=False)
    assert seen == ["Hello.", "Hello.", "Hello. a:a0 b:b0 Hello."]
    assert cast.asked == ["a", "b"]


async def play_and_fail(hub: MessageHub) -> None:
    async with hub:
        await hub.next()
        raise KeyboardInterrupt


async def test_an_object_is_opened_again_as_a_new_one_would_be(store: TemporaryStore) -> None:
    cast = Cast(store)
    hub = MessageHub(cast.make_all("abc"), session_id="hub")
    async with hub:
        with pytest.raises(UsageError, match="This hub is open already"):
            await hub.__aenter__()
        await hub.next()
        await hub.remove("c")
    with pytest.raises(KeyboardInterrupt):
        await play_and_fail(hub)
    async with MessageHub(cast.make_all("abc"), session_id="hub") as again:
        await again.run()
    assert cast.asked == ["a", "a", "b", "c"]


async def test_a_loop_over_the_transcript_is_repeated_as_it_ran(store: TemporaryStore) -> None:
    cast = Cast(store)
    agents = [cast.make("ada"), cast.make("bea", lambda request: "DONE"), cast.make("cy")]

    async def play(dies: bool) -> list[str]:
        async with MessageHub(agents, "x", session_id="hub") as hub:
            while "DONE" not in hub.transcript[-1].text:
                await hub.next()
            if dies:
                raise KeyboardInterrupt
            await hub["cy"].ask("Sum up.")
            return [message.text for message in hub.transcript]

    with pytest.raises(KeyboardInterrupt):
        await play(dies=True)
    assert await play(dies=False) == ["x", "ada0", "DONE"]
    assert cast.asked == ["ada", "bea", "cy"]


async def test_a_function_that_chooses_may_ask_a_participant(store: TemporaryStore) -> None:
    cast = Cast(store)
    agents = [cast.make("ada", lambda request: "bea"), cast.make("bea")]

    async def choose(hub: Any) -> str:
        return str((await hub["ada"].ask("Who is next?")).text)

    async with MessageHub(agents, "x", order=choose) as hub:
        spoken = await asyncio.wait_for(hub.next(), 30)
    assert spoken is not None
    assert spoken.name == "bea"
