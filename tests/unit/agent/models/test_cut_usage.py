"""What an answer cost that was cut and asked for again: not known, and not taken for nothing."""

import json
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command, Ended
from support.models.scripted import collect, open_session
from support.models.server import Answer, ModelServer, Turn, call, cut, fail, say, stream_of
from support.models.talk import NAMES, WIRES, connect_to_model

from sandbur.actions.ports import Model
from sandbur.actions.ports.events import RunFinished
from sandbur.agent.config.sources import Price
from sandbur.agent.history.reports.stats import stats_of
from sandbur.agent.models.fallback import FallbackModel
from sandbur.agent.models.prices.pricing import calculate_cost
from sandbur.state.store.recording import list_traces
from sandbur.state.store.store import Store
from sandbur.state.trace import ModelCalled

every_wire = pytest.mark.parametrize("wire", WIRES)
PRICE = partial(calculate_cost, Price(input=1000, output=1000))
HALF = cut(say("half an answer"))
NOTHING_YET = stream_of('data: {"error": {"message": "slow down", "code": 429}}\n\n')


@pytest.fixture
def command(tmp_path: Path) -> Command:
    config = tmp_path / ".config/sandbur"
    config.mkdir(parents=True)
    prices = (f'[prices."{name}"]\ninput = 1000\noutput = 1000\n' for name in NAMES.values())
    (config / "config.toml").write_text("".join(prices))
    return Command(tmp_path)


def asked(command: Command, server: ModelServer, wire: str, *more: str) -> Ended:
    url = server.url if wire == "messages" else server.base_url
    env = {f"{name}_{what}": value for name in ("OPENAI", "ANTHROPIC")
           for what, value in (("API_KEY", "sk-test"), ("BASE_URL", url))}  # fmt: skip
    return command.run("-p", "go", "-m", NAMES[wire], "--output-format", "json", *more, **env)


async def answered(store: Store, *models: Model) -> tuple[RunFinished, ModelCalled]:
    session = await open_session(store, models[0] if len(models) == 1 else FallbackModel(models))
    _, end = await collect(session.send("go"))
    found = [one.record for one in list_traces(store.database, "s1")]
    return end, next(record for record in found if isinstance(record, ModelCalled))


async def of_answers(store: Store, wire: str, *answers: Answer) -> tuple[RunFinished, ModelCalled]:
    async with ModelServer(answers) as server, connect_to_model(server, wire, price=PRICE) as model:
        return await answered(store, model)


@every_wire
def test_the_cost_of_a_run_with_a_cut_answer_is_not_known(command: Command, wire: str) -> None:
    with ModelServer([HALF, say("whole"), say("whole")]) as server:
        ended = asked(command, server, wire)
        other = asked(command, server, wire)
    assert (ended.code, ended.result["result"]) == (0, "whole"), ended.err
    used, usual = ended.result["usage"], other.result["usage"]
    assert usual["cost_usd"] > 0
    assert used["cost_usd"] is None
    assert used["llm_calls"] == 1
    # Only Messages says at its beginning what the request was.
    assert used["input_tokens"] == usual["input_tokens"] * (2 if wire == "messages" else 1)
    assert used["output_tokens"] == usual["output_tokens"] + (1 if wire == "messages" else 0)
    figures = json.loads(command.run("stats", "--json").out)
    assert figures["total"]["cost_usd"] is None
    assert figures["total"]["known_cost_usd"] >= 2 * usual["cost_usd"] * 0.99
    session_id = ended.result["session_id"]
    shown = json.loads(command.run("sessions", "show", session_id, "--json").out)
    assert shown["usage"]["cost_usd"] is None
    assert command.run("replay", session_id).code == 0


def test_a_budget_is_not_kept_past_a_cut_answer(command: Command) -> None:
    look = call("list_directory", path=".")
    with ModelServer([cut(look), look, say("never")]) as server:
        ended = asked(command, server, "chat", "--max-budget-usd", "1000")
        assert (ended.code, ended.result["status"], server.served) == (125, "budget_limit", 2)
        assert "its answer was cut" in ended.result["error"]["message"]
        env = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": server.base_url}
        assert command.run("-p", "-r", ended.result["session_id"], **env).out == "never\n"


@every_wire
async def test_the_cost_is_not_known_either_if_no_try_comes_to_an_end(store: Store, wire: str) -> None:
    end, called = await of_answers(store, wire, HALF, HALF, HALF)
    assert (end.status, end.usage.cost_usd, end.usage.llm_calls) == ("rate_limited", None, 0)
    assert (called.finish, called.discarded.cost_usd) == (None, None)
    assert stats_of(store).total.cost_usd is None


async def test_a_stand_in_does_not_hide_what_the_first_model_took(store: Store) -> None:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ModelServer(turns)) for turns in ([HALF] * 3, [say("ok")])]
        models = [
            await stack.enter_async_context(connect_to_model(one, "chat", price=PRICE)) for one in servers
        ]
        end, called = await answered(store, *models)
    assert (end.result, end.usage.cost_usd) == ("ok", None)
    assert called.usage.cost_usd is not None


@pytest.mark.parametrize("refusal", [fail(429), fail(500), NOTHING_YET], ids=["429", "500", "in the stream"])
async def test_a_request_that_was_refused_cost_nothing(store: Store, refusal: Any) -> None:
    end, called = await of_answers(store, "chat", refusal, say("fine"))
    assert end.usage.cost_usd == called.usage.cost_usd
    assert end.usage.cost_usd


@every_wire
async def test_an_empty_answer_costs_what_the_provider_says(store: Store, wire: str) -> None:
    end, called = await of_answers(store, wire, Turn(""), say("fine"))
    assert called.usage.cost_usd
    assert end.usage.cost_usd == pytest.approx(2 * called.usage.cost_usd)
    assert (end.usage.llm_calls, end.usage.output_tokens) == (1, 20)


async def test_what_a_request_takes_is_not_learned_from_a_cut_answer(store: Store) -> None:
    """Both tries together would look like a request of twice its size."""
    async with (
        ModelServer([say("a"), HALF, say("b")]) as server,
        connect_to_model(server, "messages") as model,
    ):
        session = await open_session(store, model)
        await collect(session.send("go"))
        once = session.state.tokens_per_byte
        await collect(session.send("go"))
    assert session.state.tokens_per_byte < once * 1.5
