"""The price of a model is kept in a file, and is the catalogue's to the last digit that matters."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from genai_prices.data import providers

from sandbur.agent.config.settings import DEFAULT_MODELS
from sandbur.agent.config.sources import Price
from sandbur.agent.models.prices.known_prices import FILE, find_price
from sandbur.agent.models.prices.pricing import constant_price, price_of
from sandbur.state.application import Usage

USAGES = [
    Usage(
        llm_calls=1,
        input_tokens=sent,
        output_tokens=answered,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
    for sent, answered, read, written in (
        (1, 1, 0, 0),
        (300_000, 7, 250_000, 20_000),
        (0, 900_000, 0, 0),
        (9, 9, 99, 0),
    )
] + [
    Usage(llm_calls=1, input_tokens=5000, output_tokens=None),
    Usage(llm_calls=1, input_tokens=5000, output_tokens=5),
]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google", "deepseek", "groq", "mistral"])
def test_a_kept_price_is_the_one_of_the_catalogue(provider: str) -> None:
    (found,) = [one for one in providers if one.id == provider]
    kept = 0
    for info in found.models:
        name = f"{provider}/{info.id}"
        whole = price_of(name, {})
        constant = constant_price(name)
        if whole is None or constant is None:
            continue
        kept += 1
        again = find_price(name, {name: constant}, Path("/nowhere"))
        assert again is not None
        for usage in USAGES:
            assert again(usage) == pytest.approx(whole(usage)), (name, usage)
    assert kept


@pytest.mark.parametrize(
    "model", [*(model for _, model in DEFAULT_MODELS), "openai/gpt-5.2", "openai/none-such", "ollama/x"]
)
def test_the_second_look_is_as_the_first(tmp_path: Path, model: str) -> None:
    first, second = (find_price(model, {}, tmp_path) for _ in range(2))
    assert (first is None) == (second is None)
    for usage in USAGES:
        assert first is None or second is None or second(usage) == pytest.approx(first(usage))


def test_the_second_process_does_not_read_the_catalogue(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from sandbur.agent.models.prices.known_prices import find_price
from sandbur.state.application import Usage
price = find_price("openai/gpt-5.2", {}, Path(sys.argv[1]))
print(round(price(Usage(llm_calls=1, input_tokens=1000, output_tokens=10)), 8), "genai_prices" in sys.modules)
"""
    line = [sys.executable, "-c", script, str(tmp_path)]
    said = [subprocess.run(line, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert said == ["0.00189 True\n", "0.00189 False\n"]
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize("content", [
    "", "[]", "{", '{"catalogue": "another", "models": {"openai/gpt-5.2": null}}', '{"models": 5}',
])  # fmt: skip
def test_a_file_of_another_catalogue_or_a_damaged_one_does_not_count(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    price = find_price("openai/gpt-5.2", {}, tmp_path)
    assert price is not None
    assert price(Usage(llm_calls=1, input_tokens=1000, output_tokens=10)) == pytest.approx(0.00189)
    assert "openai/gpt-5.2" in json.loads((tmp_path / FILE).read_text())["models"]


def test_a_damaged_price_does_not_count(tmp_path: Path) -> None:
    find_price("openai/gpt-5.2", {}, tmp_path)
    kept = json.loads((tmp_path / FILE).read_text())
    kept["models"]["openai/gpt-5.2"] = {"input": "much"}
    (tmp_path / FILE).write_text(json.dumps(kept))
    price = find_price("openai/gpt-5.2", {}, tmp_path)
    assert price is not None
    assert price(Usage(llm_calls=1, input_tokens=1000, output_tokens=10)) == pytest.approx(0.00189)


def test_ones_own_price_comes_first_and_is_kept_nowhere(tmp_path: Path) -> None:
    own = {"openai/gpt-5.2": Price(input=1, output=1)}
    price = find_price("openai/gpt-5.2", own, tmp_path)
    assert price is not None
    assert price(Usage(llm_calls=1, input_tokens=1_000_000, output_tokens=0)) == 1
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_to_write_into_the_price_is_known_all_the_same(tmp_path: Path) -> None:
    assert find_price("openai/gpt-5.2", {}, tmp_path / "missing") is not None
