"""Prices: the offline catalogue, the user's own, and what is not known."""

import subprocess
import sys

import pytest

from sandbur.agent.config.settings import DEFAULT_MODELS
from sandbur.agent.config.sources import Price
from sandbur.agent.models.prices.pricing import calculate_cost, price_of, require_price
from sandbur.state.application import Usage
from sandbur.state.errors import UsageError

MILLION = Usage(llm_calls=1, input_tokens=1_000_000, output_tokens=100_000)


def test_a_known_model_has_a_price_that_grows_with_its_use() -> None:
    price = require_price("openai/gpt-5.2", {})
    assert price(MILLION) == pytest.approx(1.75 + 1.4)
    assert price(MILLION + MILLION) == pytest.approx(2 * (1.75 + 1.4))
    cached = MILLION.model_copy(update={"cache_read_tokens": 1_000_000})
    assert price(cached) == pytest.approx(0.175 + 1.4)


@pytest.mark.parametrize(
    "model", [model for _, model in DEFAULT_MODELS if not model.startswith("dashscope/")]
)
def test_every_default_model_has_a_price(model: str) -> None:
    assert require_price(model, {})(MILLION)


@pytest.mark.parametrize("alias", ["openai-chat/gpt-5.2", "openai-responses/gpt-5.2"])
def test_the_forms_of_a_provider_share_its_prices(alias: str) -> None:
    assert require_price(alias, {})(MILLION) == require_price("openai/gpt-5.2", {})(MILLION)


@pytest.mark.parametrize(
    "model",
    ["openai/no-such-model", "my-openai-proxy/gpt-5.2", "own/gpt-5.2", "ollama/qwen3:8b", "x", "", "openai/"],
)
def test_an_unknown_model_has_no_price(model: str) -> None:
    assert price_of(model, {}) is None
    with pytest.raises(UsageError) as caught:
        require_price(model, {})
    assert f'[prices."{model}"]' in caught.value.hint
    assert caught.value.exit_code == 2


def test_the_demo_costs_nothing() -> None:
    assert require_price("demo", {})(MILLION) == 0


def test_ones_own_price_comes_first() -> None:
    own = {"openai/gpt-5.2": Price(input=1, output=10), "ollama/x": Price(input=0, output=0)}
    assert require_price("openai/gpt-5.2", own)(MILLION) == pytest.approx(2.0)
    assert require_price("ollama/x", own)(MILLION) == 0


def test_cached_tokens_have_their_own_price() -> None:
    price = Price(input=10, output=0, cache_read=1, cache_write=20)
    usage = Usage(input_tokens=1000, output_tokens=0, cache_read_tokens=500, cache_write_tokens=100)
    assert calculate_cost(price, usage) == pytest.approx((400 * 10 + 500 * 1 + 100 * 20) / 1e6)
    assert calculate_cost(Price(input=10, output=0), usage) == pytest.approx(1000 * 10 / 1e6)


@pytest.mark.parametrize("field", ["input_tokens", "output_tokens"])
@pytest.mark.parametrize("model", ["openai/gpt-5.2", "own/x", "demo"])
def test_unknown_tokens_make_the_cost_unknown(model: str, field: str) -> None:
    price = require_price(model, {"own/x": Price(input=1, output=1)})
    assert price(MILLION.model_copy(update={field: None})) is None


def test_an_unreported_cache_counts_as_no_cache() -> None:
    unreported = MILLION.model_copy(update={"cache_read_tokens": None, "cache_write_tokens": None})
    price = require_price("openai/gpt-5.2", {})
    assert price(unreported) == price(MILLION)


def test_an_absurd_report_is_unknown_or_bounded_but_never_an_error() -> None:
    for model in ("openai/gpt-5.2", "own/x"):
        price = require_price(model, {"own/x": Price(input=1, output=1)})
        assert price(MILLION.model_copy(update={"input_tokens": -5})) is None
        assert price(MILLION.model_copy(update={"cache_read_tokens": -5})) is None
        more_cached_than_sent = MILLION.model_copy(update={"cache_read_tokens": 9_000_000})
        assert price(more_cached_than_sent) is not None


def test_the_catalogue_is_read_late_and_without_a_network() -> None:
    script = """
import sys
events = []
sys.addaudithook(lambda event, args: events.append(event))
from sandbur.agent.models.prices import pricing
assert "genai_prices" not in sys.modules
assert pricing.price_of("demo", {}) and pricing.price_of("ollama/x", {}) is None
assert "genai_prices" not in sys.modules
from sandbur.state.application import Usage
print(pricing.require_price("anthropic/claude-sonnet-4-5", {})(Usage(input_tokens=1000, output_tokens=0)))
assert "import" in events and not {"socket.connect", "socket.getaddrinfo"} & set(events)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "0.003", done.stderr
