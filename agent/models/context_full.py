"""One question for every provider: does this error say that the request is too long for the model?"""

import re

_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
_STATUSES = frozenset({400, 413, 422, 500})
"""llama.cpp and Ollama answer 500 for it; a 429 that speaks of tokens is a rate."""

_TEXTS = re.compile(
    "|".join(
        (
            r"context[_ ]length[_ ]exceeded",
            r"maximum context length",
            r"(exceeds?|exceeded|longer than|too long for|larger than) (the |your |this |its |available )*"
            r"(model'?s? |available |maximum |max )*(context|model length)",
            r"exceeds the context window",
            r"prompt is too long",
            r"prompt too long",
            r"input is too long",
            r"exceed context limit",
            r"input token count .{0,40}exceeds",
            r"input length .{0,20}exceeds",
            r"range of input length should be",
            r"maximum prompt length is",
            r"prompt token count of \d+ exceeds",
            r"reduce the length of the (messages|input|prompt)",
        )
    ),
    re.IGNORECASE,
)


def says_context_full(status: int, code: str, text: str) -> bool:
    if code in _CODES:
        return True
    return status in _STATUSES and _TEXTS.search(text) is not None
