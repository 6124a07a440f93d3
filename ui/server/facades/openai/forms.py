"""The bodies of requests in the form of OpenAI, as far as the server understands them."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from ...routes.forms import MOST_TEXT_CHARS, Form, Label
from .tolerant_form import ExplainedForm, TolerantForm

ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
_Text = Annotated[str, StringConstraints(max_length=MOST_TEXT_CHARS)]
_MOST_MESSAGES = 5000
Tags = Annotated[dict[Annotated[str, StringConstraints(max_length=64)], Label], Field(max_length=16)]
Ignored = Any
"""A parameter that is accepted and has no effect: the agent of the server decides this."""
Empty = Annotated[list[Any], Field(max_length=0)] | Annotated[dict[str, Any], Field(max_length=0)] | None
"""A parameter that is accepted only without content."""
_Choice = Literal["auto", "none"] | None


class TextPart(TolerantForm):
    type: Literal["text", "input_text", "output_text", "refusal"]
    text: _Text = ""
    refusal: _Text = ""
    annotations: Ignored = None
    logprobs: Ignored = None


class ImageAddress(TolerantForm):
    url: str
    detail: Ignored = None


class ChatImagePart(TolerantForm):
    type: Literal["image_url"]
    image_url: ImageAddress


class ResponseImagePart(TolerantForm):
    type: Literal["input_image"]
    image_url: str
    detail: Ignored = None


ContentPart = Annotated[TextPart | ChatImagePart | ResponseImagePart, Field(discriminator="type")]
ContentParts = Annotated[list[ContentPart], Field(max_length=50)]


class ChatMessage(TolerantForm):
    role: Literal["system", "developer", "user", "assistant"]
    content: _Text | ContentParts | None = None
    name: Ignored = None
    # What a client sends back of an answer.
    refusal: Ignored = None
    annotations: Ignored = None
    audio: Empty = None
    tool_calls: Empty = None
    function_call: Empty = None


class StreamOptions(TolerantForm):
    include_usage: bool | None = None
    include_obfuscation: Ignored = None


class TextFormat(TolerantForm):
    type: Literal["text"]


class ResponseText(TolerantForm):
    format: TextFormat | None = None
    verbosity: Ignored = None


class _Sampling(ExplainedForm):
    """Parameters that are accepted and have no effect, because the agent of the server decides them."""

    temperature: Ignored = None
    top_p: Ignored = None
    prompt_cache_key: Ignored = None
    prompt_cache_retention: Ignored = None
    safety_identifier: Ignored = None
    service_tier: Ignored = None
    top_logprobs: Ignored = None
    parallel_tool_calls: Ignored = None
    prompt_cache_options: Ignored = None
    tools: Empty = None
    tool_choice: _Choice = None


class ChatBody(_Sampling):
    model: ModelName
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=_MOST_MESSAGES)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Label | None = None
    metadata: Tags | None = None
    n: Literal[1] | None = None
    store: Ignored = None
    max_tokens: Ignored = None
    max_completion_tokens: Ignored = None
    frequency_penalty: Ignored = None
    presence_penalty: Ignored = None
    logit_bias: Ignored = None
    logprobs: Ignored = None
    seed: Ignored = None
    stop: Ignored = None
    reasoning_effort: Ignored = None
    verbosity: Ignored = None
    functions: Empty = None
    function_call: _Choice = None
    response_format: TextFormat | None = None
    modalities: tuple[Literal["text"]] | Empty = None
    audio: Empty = None
    prediction: Empty = None
    web_search_options: Empty = None


class InputMessage(TolerantForm):
    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: _Text | ContentParts
    id: Ignored = None
    status: Ignored = None
    phase: Ignored = None


class ResponseBody(_Sampling):
    model: ModelName
    input: _Text | Annotated[list[InputMessage], Field(min_length=1, max_length=_MOST_MESSAGES)]
    instructions: _Text | None = None
    previous_response_id: Label | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    background: bool | None = None
    store: Literal[True] | None = Field(None, description="Sessions are always stored.")
    user: Label | None = None
    metadata: Tags | None = None
    max_output_tokens: Ignored = None
    reasoning: Ignored = None
    truncation: Ignored = None
    include: Ignored = None
    max_tool_calls: Ignored = None
    text: ResponseText | None = None
    conversation: Empty = None
    prompt: Empty = None


class ResponseQuery(Form):
    stream: Literal["false"] | None = Field(None, description="A stored response comes as a whole.")
    include: Label | None = None
