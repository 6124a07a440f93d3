"""Responses: the SDK of OpenAI continues, forks, reads and cancels durable responses of a server."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai import OpenAI
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from support.network.sandbur_server import RunningServer, serve
from support.waiting import wait_for

from sandbur.state.store.access_tokens import TokenTable
from sandbur.state.store.store import Store

STREAM = [
    "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
    "response.output_text.delta", "response.output_text.done", "response.content_part.done",
    "response.output_item.done", "response.completed",
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("served"), "--mode", "yolo", "--rate-limit", "1000000") as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[OpenAI]:
    with connect(server) as made:
        yield made


def connect(server: RunningServer, token: str = "") -> OpenAI:
    url = f"http://127.0.0.1:{server.port}/v1"
    return OpenAI(base_url=url, api_key=token or server.token, max_retries=0)


def ask(client: OpenAI, message: Any, previous: str | None = None, **more: Any) -> Any:
    return client.responses.create(model="default", input=message, previous_response_id=previous, **more)


def read_questions(server: RunningServer, response: Any) -> list[str]:
    path = f"/v1/sessions/{response.sandbur['session_id']}/messages"
    return [one["text"] for one in server.ask("GET", path).json["messages"] if one["role"] == "user"]


def test_a_response_goes_on_after_the_previous_one(server: RunningServer, client: OpenAI) -> None:
    first = ask(client, "run echo one")
    second = ask(client, "run echo two", first.id)
    third = ask(client, [{"role": "user", "content": "run echo three"}], second.id)
    assert "echo three" in third.output_text
    assert [one.status for one in (first, second, third)] == ["completed"] * 3
    assert len({one.sandbur["session_id"] for one in (first, second, third)}) == 1
    assert read_questions(server, third) == ["run echo one", "run echo two", "run echo three"]


def test_a_response_after_an_older_one_is_a_fork(server: RunningServer, client: OpenAI) -> None:
    first = ask(client, "run echo root")
    left = ask(client, "run echo left", first.id)
    right = ask(client, "run echo right", first.id)
    further = ask(client, "run echo further", right.id)
    assert first.sandbur == left.sandbur != right.sandbur
    assert read_questions(server, left) == ["run echo root", "run echo left"]
    assert read_questions(server, further) == ["run echo root", "run echo right", "run echo further"]


def test_a_stored_response_is_what_was_answered(client: OpenAI) -> None:
    made = ask(client, "run echo stored", metadata={"desk": "7"})
    ask(client, "run echo later", made.id)
    found = client.responses.retrieve(made.id)
    assert found.output_text == made.output_text
    assert found.usage == made.usage
    assert found.metadata == {"desk": "7"}
    assert found.status == "completed"


def test_a_stream_has_the_events_in_the_order_that_the_sdk_expects(client: OpenAI) -> None:
    with client.responses.stream(model="default", input="run echo streamed") as stream:
        events: list[Any] = list(stream)
        final = stream.get_final_response()
    kinds = [event.type for event in events]
    assert list(dict.fromkeys(kinds)) == STREAM
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert deltas == final.output_text == client.responses.retrieve(final.id).output_text


def test_instructions_are_those_of_the_first_response(server: RunningServer, client: OpenAI) -> None:
    first = ask(client, "run echo a", instructions="Be brief.")
    assert ask(client, "run echo b", first.id, instructions="Be brief.").sandbur == first.sandbur
    with pytest.raises(openai.BadRequestError, match="The instructions of a session stay those of its first"):
        ask(client, "run echo c", first.id, instructions="Be long.")


def test_a_response_in_the_background_is_read_and_cancelled(server: RunningServer, client: OpenAI) -> None:
    made = ask(client, "run sleep 60", background=True)
    assert made.status == "queued"
    wait_for(lambda: client.responses.retrieve(made.id).status == "in_progress")
    with pytest.raises(openai.ConflictError, match="still in progress"):
        ask(client, "hi", made.id)
    assert client.responses.cancel(made.id).status == "cancelled"
    assert client.responses.retrieve(made.id).status == "cancelled"
    assert ask(client, "run echo on", made.id).sandbur == made.sandbur


def test_a_response_that_waits_for_approval_names_its_page_and_is_whole_after_it(tmp_path: Path) -> None:
    with serve(tmp_path) as server, connect(server) as client:
        made = ask(client, "run echo x >> made.txt")
        session = made.sandbur["session_id"]
        assert f"http://127.0.0.1:{server.port}/#/s/{session}" in made.output_text
        assert server.ask("POST", f"/v1/sessions/{session}/approve", {}).status == 202
        server.wait_for(session, "done")
        assert "exit code: 0" in client.responses.retrieve(made.id).output_text
        assert ask(client, "hi", made.id).sandbur == made.sandbur


def test_a_response_is_whole_after_a_kill_and_another_one_follows_it(tmp_path: Path) -> None:
    with serve(tmp_path, "--mode", "yolo") as server, connect(server) as client:
        first = ask(client, "run echo one")
        made = ask(client, "run echo x >> n; sleep 2", first.id, background=True)
        wait_for(lambda: (tmp_path / "work" / "n").exists())
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    with serve(tmp_path, "--mode", "yolo") as server, connect(server) as client:
        wait_for(lambda: client.responses.retrieve(made.id).status == "completed")
        assert ask(client, "run echo after", made.id).sandbur == first.sandbur
        assert (tmp_path / "work" / "n").read_text() == "x\n"


@pytest.mark.parametrize("wrong", ["resp_x_0", "other", "resp__1", "resp_x_²"])
def test_a_response_that_does_not_exist_is_not_found(client: OpenAI, wrong: str) -> None:
    with pytest.raises(openai.NotFoundError, match="There is no response"):
        client.responses.retrieve(wrong)
    with pytest.raises(openai.BadRequestError, match="There is no response"):
        ask(client, "hi", wrong)


def test_a_response_of_another_tenant_is_not_found(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/sandbur.db")
    own, other = (TokenTable(store.database).add(name, name, ("read", "run"))[1] for name in ("red", "blue"))
    with serve(tmp_path, store=store.url) as server:
        with connect(server, own) as client:
            made = ask(client, "hi")
            assert client.responses.retrieve(made.id).id == made.id
        with connect(server, other) as client:
            with pytest.raises(openai.NotFoundError, match="There is no response"):
                client.responses.retrieve(made.id)
            with pytest.raises(openai.BadRequestError, match="There is no response"):
                ask(client, "hi", made.id)
    store.close()


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "input_text", "image_url", "input_image", "other"])},
    optional={"text": TEXTS, "image_url": TEXTS | st.fixed_dictionaries({"url": TEXTS}), "detail": VALUES},
)
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system", "developer", "tool"]),
        "content": TEXTS | st.lists(PARTS, max_size=3) | VALUES,
    }
)
BODIES = st.fixed_dictionaries(
    {"model": st.sampled_from(["default", "x", ""])},
    optional={
        "messages": st.lists(MESSAGES, max_size=4) | VALUES,
        "input": st.lists(MESSAGES, max_size=4) | TEXTS | VALUES,
        "previous_response_id": st.sampled_from(["resp_s_1", "x"]) | VALUES,
        "stream": VALUES,
        "metadata": VALUES,
        "user": VALUES,
        "temperature": VALUES,
        "instructions": VALUES,
        "background": st.just(True),
    },
)


NEUTRAL = {
    "access_programs": [None, []], "background": [False, None], "background_options": [None],
    "context_management": [None, []], "conversation": [None], "image": [None], "include": [[], None],
    "instructions": [None], "max_output_tokens": [1000, None], "max_tool_calls": [10, None],
    "metadata": [{}, None], "moderation": [None], "parallel_tool_calls": [True, None],
    "previous_response_id": [None], "prompt": [None], "prompt_cache_key": ["k", None],
    "prompt_cache_options": [None], "prompt_cache_retention": ["24h", None],
    "reasoning": [{"effort": "low"}, {}, None], "safety_identifier": ["s", None],
    "service_tier": ["auto", "flex", None], "store": [True, None], "stream_options": [None],
    "temperature": [0, 1, None], "text": [{"format": {"type": "text"}}, {"verbosity": "low"}, {}, None],
    "tool_choice": ["auto", "none", None], "tools": [[], None], "top_logprobs": [0, None], "top_p": [1, None],
    "truncation": ["disabled", "auto", None], "user": ["me", None], "of_a_later_version": [None, [], {}],
}  # fmt: skip
"""Parameter -> values that ask for nothing that the server would have to refuse."""


def test_what_clients_send_without_meaning_anything_is_accepted(client: OpenAI) -> None:
    assert set(ResponseCreateParamsBase.__annotations__) - {"input", "model"} <= set(NEUTRAL)
    for at in range(max(map(len, NEUTRAL.values()))):
        given = {name: values[min(at, len(values) - 1)] for name, values in NEUTRAL.items()}
        assert ask(client, "hi", extra_body=given).status == "completed"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tools": [{"type": "web_search"}]}, "`tools`: the tools of an agent run inside this server"),
        (
            {"tool_choice": {"type": "function", "name": "f"}},
            "`tool_choice`: the tools of an agent run inside",
        ),
        ({"text": {"format": {"type": "json_object"}}}, "`text`: the agent decides the form"),
        ({"store": False}, "`store`: sessions are always stored"),
        ({"conversation": "conv_1"}, "`conversation`: responses follow each other by previous_response_id"),
        ({"prompt": {"id": "p"}}, "`prompt`: the agent has its own prompt"),
        ({"input": [{"type": "function_call_output", "call_id": "1", "output": "x"}]}, "`input`: answers of"),
        ({"top_k": 5}, "`top_k` is not known here"),
    ],
)
def test_what_the_server_cannot_do_is_refused_in_one_sentence(
    client: OpenAI, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, "hi", extra_body=changes)
    error: Any = refused.value.body
    assert error["message"].startswith(message)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(["chat/completions", "responses"]), body=BODIES | VALUES)
def test_no_body_is_answered_by_a_bug(server: RunningServer, path: str, body: Any) -> None:
    answer = server.ask("POST", f"/v1/{path}", body)
    assert answer.status < 500, (path, body, answer.body)
    if answer.status >= 400:
        assert set(answer.json["error"]) == {"message", "type", "param", "code"}
