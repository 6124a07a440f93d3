"""Each provider's own words for a request that is too long, and words that only sound like it."""

# ruff: noqa: E501 (the providers' texts, word for word)

import pytest
from support.models.server import ModelServer, fail
from support.models.talk import WIRES, connect_to_model, talk

from sandbur.agent.models.failures import is_context_full
from sandbur.state.errors import ContextFull, Overloaded

TOO_LONG = {
    "openai code": (400, "context_length_exceeded", "Please reduce it"),
    "openai chat": (400, "", "This model's maximum context length is 128000 tokens. However, your messages resulted in 140001 tokens."),
    "openai responses": (400, "", "Your input exceeds the context window of this model. Please adjust your input and try again."),
    "anthropic prompt": (400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
    "anthropic sum": (400, "", "input length and `max_tokens` exceed context limit: 197202 + 21333 > 200000, decrease input length or `max_tokens` and try again"),
    "anthropic bytes": (413, "request_too_large", "Request exceeds the maximum size"),
    "deepseek": (400, "invalid_request_error", "This model's maximum context length is 65536 tokens. However, you requested 94465 tokens (90369 in the messages, 4096 in the completion)."),
    "vllm": (400, "400", "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the messages, Please reduce the length of the messages."),
    "vllm decoder": (400, "", "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    "llama.cpp": (400, "exceed_context_size_error", "the request exceeds the available context size. try increasing the context size or enable context shift"),
    "llama.cpp old": (500, "server_error", "the request exceeds the available context size. try increasing the context size"),
    "llama.cpp numbers": (400, "", "request (5012 tokens) exceeds the available context size (4096 tokens), try increasing it"),
    "ollama": (400, "", "the input length exceeds the context length"),
    "ollama max": (400, "", "prompt too long; exceeded max context length by 1021 tokens"),
    "ollama 500": (500, "", "input length exceeds maximum context length"),
    "openrouter": (400, "400", "This endpoint's maximum context length is 131072 tokens. However, you requested about 150312 tokens (150000 of text input)."),
    "gemini": (400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    "dashscope": (400, "InvalidParameter", "Range of input length should be [1, 98304]"),
    "groq": (413, "", "Please reduce the length of the messages or completion."),
    "bedrock": (400, "", "Input is too long for requested model."),
    "xai": (400, "", "This model's maximum prompt length is 131072 but the request contains 200000 tokens."),
}  # fmt: skip
OTHERS = {
    "rate": (429, "rate_limit_exceeded", "Request too large for gpt-x on tokens per min (TPM): Limit 30000, Requested 40000. Please reduce the length of the messages."),
    "output limit": (400, "", "max_tokens is too large: 999999. This model supports at most 16384 completion tokens"),
    "long name": (400, "", "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64"),
    "plain": (400, "", "Invalid value for 'temperature'"),
    "server": (500, "", "Internal server error"),
}  # fmt: skip


@pytest.mark.parametrize("case", TOO_LONG.values(), ids=TOO_LONG)
def test_a_full_context_is_recognized(case: tuple[int, str, str]):
    assert is_context_full(*case)


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS)
def test_other_errors_are_not_taken_for_a_full_context(case: tuple[int, str, str]):
    assert not is_context_full(*case)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_full_context_is_raised_at_once(wire: str):
    refusal = fail(400, "prompt is too long: 208310 tokens > 200000 maximum", type="invalid_request_error")
    async with ModelServer([refusal]) as server, connect_to_model(server, wire) as model:
        with pytest.raises(ContextFull, match="208310"):
            await talk(model)
        assert server.served == 1


async def test_a_rate_of_tokens_is_not_a_full_context():
    status, code, text = OTHERS["rate"]
    async with (
        ModelServer([fail(status, text, code=code)] * 3) as server,
        connect_to_model(server, "chat") as model,
    ):
        with pytest.raises(Overloaded):
            await talk(model)
