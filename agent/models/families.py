"""What is known of model families by their names: window, output limit, thinking."""

import re
from dataclasses import dataclass

DEFAULT_WINDOW = 128_000
_DEFAULT_OUTPUT_TOKENS = 8_192
_CLAUDE_OUTPUT_TOKENS = 32_000
"""Every Claude since 4 can write this much; more would eat into the window of the smaller ones."""

_CLAUDE = re.compile(r"claude-[a-z]+-(\d+)(?:[-.](\d{1,2})(?!\d))?")
_WINDOWS = tuple(
    (re.compile(pattern), window)
    for pattern, window in (
        (r"claude-[a-z]+-(4[-.][6-9]|[5-9])", 1_000_000),
        (r"claude", 200_000),
        (r"gpt-(5\.[4-9]|[6-9])", 1_050_000),
        (r"gpt-5", 400_000),
        (r"gpt-4\.1", 1_000_000),
        (r"gpt-4", 128_000),
        (r"o[1-9]\b", 200_000),
        (r"gemini-", 1_048_576),
        (r"deepseek-v[4-9]", 1_000_000),
    )
)


@dataclass(frozen=True, slots=True)
class Claude:
    """What the Messages API lets this model do."""

    max_output_tokens: int
    thinks_adaptively: bool


def context_window(model: str) -> int:
    """Return how many tokens the model takes, as far as its name tells."""
    name = _bare(model)
    return next((window for pattern, window in _WINDOWS if pattern.match(name)), DEFAULT_WINDOW)


def claude(model: str) -> Claude:
    found = _CLAUDE.match(_bare(model))
    if found is None:
        return Claude(_DEFAULT_OUTPUT_TOKENS, thinks_adaptively=False)
    version = (int(found[1]), int(found[2] or 0))
    return Claude(
        _CLAUDE_OUTPUT_TOKENS if version >= (4, 0) else _DEFAULT_OUTPUT_TOKENS,
        thinks_adaptively=version >= (4, 6),
    )


def reasons(model: str) -> bool:
    """Tell whether this is an OpenAI model that can summarize its reasoning."""
    name = _bare(model)
    return re.match(r"gpt-[5-9]|o[1-9]\b|codex", name) is not None and "-chat" not in name


def _bare(model: str) -> str:
    """Return the name without a vendor in front, as routers write it."""
    return model.rpartition("/")[2].lower()
