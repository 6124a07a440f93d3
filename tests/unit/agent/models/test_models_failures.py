"""What a provider answers instead of a reply: judged once, told in one sentence."""

import pytest
from support.models.server import ModelServer, Raw, fail, html, say, stream_of
from support.models.talk import ROADS, connect_to_model, talk

from sandbur.state.errors import CredentialsError, ModelError, Overloaded

every_wire = pytest.mark.parametrize("wire", ROADS)


@pytest.mark.parametrize("end", ["data: [DONE]\n\n", ""])
async def test_the_done_mark_alone_does_not_make_a_reply(end: str):
    body = 'data: {"choices":[{"delta":{"content":"half"}}]}\n\n' + end
    async with (
        ModelServer([stream_of(body), say("whole")]) as server,
        connect_to_model(server, "chat") as model,
    ):
        assert (await talk(model)).reply.message.text == "whole"


@every_wire
@pytest.mark.parametrize(
    "damaged",
    [
        Raw(b"", content_type="text/event-stream"),
        Raw(b"", content_type="application/json"),
        stream_of("data: {not json}\n\n"),
        stream_of("data: [1, 2]\n\n"),
        stream_of('data: {"choices": [{"delta": {"content": "cut in the mid'),
        stream_of("data: " + "[" * 200_000 + "\n\n"),
        stream_of(": only comments\n\n"),
    ],
    ids=["empty", "empty-json", "no-json", "no-object", "cut-json", "deep", "comments"],
)
async def test_a_damaged_stream_is_tried_again(wire: str, damaged: Raw):
    async with ModelServer([damaged, say("fine")]) as server, connect_to_model(server, wire) as model:
        assert (await talk(model)).reply.message.text == "fine"


@every_wire
async def test_a_web_page_instead_of_a_stream_is_told_at_once(wire: str):
    async with ModelServer([html()]) as server, connect_to_model(server, wire) as model:
        with pytest.raises(ModelError, match="answered with a web page") as caught:
            await talk(model)
        assert server.served == 1
    assert "base URL" in caught.value.hint


@every_wire
async def test_plain_words_instead_of_a_stream_are_quoted(wire: str):
    async with (
        ModelServer([Raw(b"go away\x1b[31m", content_type="text/plain")]) as server,
        connect_to_model(server, wire) as model,
    ):
        with pytest.raises(ModelError, match=r"no model's answer: go away \[31m"):
            await talk(model)


@every_wire
async def test_a_502_page_of_a_proxy_is_tried_again(wire: str):
    async with ModelServer([html(502), say("fine")]) as server, connect_to_model(server, wire) as model:
        assert (await talk(model)).reply.message.text == "fine"


@pytest.mark.parametrize("as_stream", [True, False])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ('{"code": 429, "message": "slow down"}', Overloaded),
        ('{"code": 502, "message": "bad gateway"}', Overloaded),
        ('{"type": "server_error", "message": "oops"}', Overloaded),
        ('"just words"', Overloaded),
        ('{"code": 401, "message": "no"}', CredentialsError),
        ('{"type": "invalid_request_error", "message": "no"}', ModelError),
    ],
)
async def test_an_error_with_status_200_is_judged_by_what_it_says(
    as_stream: bool, error: str, kind: type[Exception]
):
    body = f'{{"error": {error}}}'
    raw = stream_of(f"data: {body}\n\n") if as_stream else Raw(body.encode())
    async with ModelServer([raw] * 3) as server, connect_to_model(server, "chat") as model:
        with pytest.raises(kind) as caught:
            await talk(model)
        assert server.served == (3 if kind is Overloaded else 1)
    assert isinstance(caught.value, Overloaded) == (kind is Overloaded)


@every_wire
async def test_a_wrong_key_names_the_variable_and_never_shows_a_key(wire: str):
    refusal = fail(401, "Incorrect API key provided: sk-test-key and sk-abcdefghijklmnop")
    async with ModelServer([refusal]) as server, connect_to_model(server, wire) as model:
        with pytest.raises(CredentialsError, match="_API_KEY") as caught:
            await talk(model)
        assert server.served == 1
    assert "sk-" not in str(caught.value)
    assert caught.value.exit_code == 41


@every_wire
async def test_a_forbidden_key_quotes_the_reason_without_the_key(wire: str):
    async with (
        ModelServer([fail(403, "country not allowed for sk-test-key, nor sk-12345678")]) as server,
        connect_to_model(server, wire) as model,
    ):
        with pytest.raises(CredentialsError, match=r"country not allowed for \*\*\*, nor \*\*\*"):
            await talk(model)


@every_wire
async def test_an_unknown_model_names_the_model_and_the_address(wire: str):
    async with (
        ModelServer([fail(404, "The model does not exist")]) as server,
        connect_to_model(server, wire) as model,
    ):
        with pytest.raises(ModelError, match=rf"127\.0\.0\.1:{server.port}.* knows no model"):
            await talk(model)
        assert server.served == 1


@every_wire
@pytest.mark.parametrize(
    "refusal", [fail(429, "You exceeded it", code="insufficient_quota"), fail(402, "Insufficient Balance")]
)
async def test_an_empty_account_is_not_asked_again(wire: str, refusal: Raw):
    async with ModelServer([refusal]) as server, connect_to_model(server, wire) as model:
        with pytest.raises(ModelError, match="no credit left") as caught:
            await talk(model)
        assert server.served == 1
    assert not isinstance(caught.value, Overloaded)


@every_wire
async def test_an_error_answer_that_is_cut_itself_is_tried_again(wire: str):
    half = Raw(b'{"error": {"mess', 400, {"Content-Length": "500"}, cuts=True)
    async with ModelServer([half, say("fine")]) as server, connect_to_model(server, wire) as model:
        assert (await talk(model)).reply.message.text == "fine"
