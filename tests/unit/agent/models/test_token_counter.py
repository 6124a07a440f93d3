"""Requests are counted by whoever can: a counter of the agent's, or its model; else they are estimated."""

from pathlib import Path

from sandbur import Agent, ModelRequest, TokenCounter
from sandbur.agent.history.replay.replay import replay
from sandbur.state.store.store import Store
from sandbur.state.trace import Conditions
from sandbur.testing import ScriptedModel

WINDOW = 10_000


class Counter:
    """Says one number after the other, then the last one for ever."""

    def __init__(self, *tokens: int | None) -> None:
        self._tokens = list(tokens)
        self.requests: list[ModelRequest] = []

    async def count_tokens(self, request: ModelRequest) -> int | None:
        self.requests.append(request)
        return self._tokens.pop(0) if len(self._tokens) > 1 else self._tokens[0]


class CountingModel(ScriptedModel):
    async def count_tokens(self, request: ModelRequest) -> int | None:
        return WINDOW if len(self.requests) == 4 else 10


def agent(folder: Path, model: ScriptedModel, counter: TokenCounter | None) -> Agent[str]:
    return Agent(model, store=f"sqlite:///{folder}/s.db", cwd=folder, token_counter=counter, env=env(folder))


def env(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "SANDBUR_HOME": str(folder / "data")}


def script(*replies: str) -> ScriptedModel:
    return ScriptedModel([*replies], context_window=WINDOW)


async def test_what_is_counted_too_large_is_compressed_first(tmp_path: Path) -> None:
    model, counter = script("one", "two", "a summary", "three"), Counter(10, 10, WINDOW, 10)
    async with agent(tmp_path, model, counter) as mine, mine.session("s") as session:
        results = [await session.run(text) for text in ("a", "b", "c")]
    assert [result.output for result in results] == ["one", "two", "three"]
    assert "a summary" in "".join(message.text for message in model.requests[-1].messages)
    assert len(counter.requests) == 4
    model.assert_done()


async def test_what_is_counted_too_large_for_the_window_is_never_sent(tmp_path: Path) -> None:
    model = script("unread")
    async with agent(tmp_path, model, Counter(2 * WINDOW, 2 * WINDOW)) as mine, mine.session("s") as session:
        result = await session.run("a")
    assert result.status == "error"
    assert {request.purpose for request in model.requests} == {"summary"}


async def test_what_was_counted_is_replayed_without_the_counter(tmp_path: Path) -> None:
    await test_what_is_counted_too_large_is_compressed_first(tmp_path)
    store = Store.open(f"sqlite:///{tmp_path}/s.db")
    try:
        assert (await replay(store, "s")).divergence is None
    finally:
        store.close()


async def test_a_model_that_counts_is_asked_itself(tmp_path: Path) -> None:
    replies = ["one", "two", "three", "four", "a summary", "five"]
    model = CountingModel(replies, context_window=WINDOW)
    async with agent(tmp_path, model, None) as mine, mine.session() as session:
        for text in "abcde":
            await session.run(text)
    assert isinstance(model, TokenCounter)
    model.assert_done()


async def test_a_counter_that_does_not_know_leaves_it_to_the_estimate(tmp_path: Path) -> None:
    model = script("one", "two")
    async with agent(tmp_path, model, Counter(None)) as mine, mine.session() as session:
        await session.run("a")
        await session.run("b")
    model.assert_done()


def test_without_a_counter_the_record_is_as_before() -> None:
    conditions = Conditions(cwd="/", context_window=1, compress_at=0.8)
    assert "counts_tokens" not in conditions.model_dump(mode="json")
    assert conditions.model_copy(update={"counts_tokens": True}).model_dump(mode="json")["counts_tokens"]
