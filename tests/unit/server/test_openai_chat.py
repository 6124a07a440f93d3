"""Chat completions: the SDK of OpenAI talks with a server, and each conversation is one durable session."""

import base64
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from support.network.sandbur_server import RunningServer, serve
from support.waiting import wait_for

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("served"), "--mode", "yolo", "--rate-limit", "1000000") as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[OpenAI]:
    with connect(server) as made:
        yield made


def connect(server: RunningServer, **more: Any) -> OpenAI:
    return OpenAI(
        base_url=f"http://127.0.0.1:{server.port}/v1", api_key=server.token, **{"max_retries": 0, **more}
    )


class Chat:
    """A client that keeps a conversation and sends it again as a whole each time."""

    def __init__(self, client: OpenAI, *messages: dict[str, Any], **more: Any) -> None:
        self.client = client
        self.messages = [*messages]
        self.more = more
        self.session_id: str = ""

    def say(self, content: Any) -> str:
        self.messages.append({"role": "user", "content": content})
        made: Any = self.client.chat.completions.create(
            model="default", messages=self.messages, **self.more  # type: ignore[arg-type]
        )  # fmt: skip
        self.session_id = made.sandbur["session_id"]
        (choice,) = made.choices
        assert choice.finish_reason == "stop"
        assert choice.message.tool_calls is None
        self.messages.append({"role": "assistant", "content": choice.message.content})
        return choice.message.content


def read_questions(server: RunningServer, session_id: str) -> list[str]:
    history = server.ask("GET", f"/v1/sessions/{session_id}/messages").json["messages"]
    return [one["text"] for one in history if one["role"] == "user"]


def count_sessions(server: RunningServer) -> int:
    return len(server.ask("GET", "/v1/sessions?limit=200").json["sessions"])


def test_the_models_are_the_agents_of_the_server(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["default"]
    assert client.models.retrieve("default").owned_by == "sandbur"
    with pytest.raises(openai.NotFoundError, match="There is no model 'other' here, but: default"):
        client.models.retrieve("other")


def test_a_conversation_that_is_sent_again_is_one_session(server: RunningServer, client: OpenAI) -> None:
    chat = Chat(client)
    assert "echo one" in chat.say("run echo one")
    first = chat.session_id
    assert "echo two" in chat.say("run echo two")
    assert "echo three" in chat.say("run echo three")
    assert chat.session_id == first
    assert read_questions(server, first) == ["run echo one", "run echo two", "run echo three"]


def test_two_conversations_that_begin_alike_stay_apart(server: RunningServer, client: OpenAI) -> None:
    one, other = Chat(client), Chat(client)
    one.say("run echo alike")
    other.say("run echo alike")
    assert one.session_id != other.session_id
    one.say("run echo of one")
    other.say("run echo of other")
    assert one.session_id != other.session_id
    assert read_questions(server, one.session_id) == ["run echo alike", "run echo of one"]
    assert read_questions(server, other.session_id) == ["run echo alike", "run echo of other"]


def test_an_edited_message_forks_the_session(server: RunningServer, client: OpenAI) -> None:
    chat = Chat(client)
    chat.say("run echo root")
    chat.say("run echo left")
    first = chat.session_id
    del chat.messages[2:]
    chat.say("run echo right")
    assert chat.session_id != first
    assert read_questions(server, first) == ["run echo root", "run echo left"]
    assert read_questions(server, chat.session_id) == ["run echo root", "run echo right"]
    details = server.ask("GET", f"/v1/sessions/{chat.session_id}").json
    assert details["forked_from"] == first


def test_a_conversation_that_began_elsewhere_goes_on_here(server: RunningServer, client: OpenAI) -> None:
    began = [{"role": "user", "content": "who are you?"}, {"role": "assistant", "content": "Another model."}]
    chat = Chat(client, *began)
    chat.say("run echo here")
    first = chat.session_id
    chat.say("run echo again")
    assert chat.session_id == first
    assert read_questions(server, first) == ["run echo here", "run echo again"]


def test_other_instructions_or_another_user_make_another_session(client: OpenAI) -> None:
    found: set[str] = set()
    for system, user in (("Be brief.", "ada"), ("Be long.", "ada"), ("Be brief.", "bob")):
        chat = Chat(client, {"role": "system", "content": system}, user=user, metadata={"desk": "7"})
        chat.say("run echo same")
        chat.say("run echo more")
        found.add(chat.session_id)
    assert len(found) == 3


def test_user_and_metadata_are_labels_of_the_session(server: RunningServer, client: OpenAI) -> None:
    chat = Chat(client, user="carol", metadata={"desk": "9"})
    chat.say("run echo labels")
    (found,) = server.ask("GET", "/v1/sessions?user=carol&tag=desk%3D9&app=openai").json["sessions"]
    assert found["id"] == chat.session_id


def test_a_stream_has_the_same_text_and_a_chunk_with_the_usage(client: OpenAI) -> None:
    whole = Chat(client).say("run echo streamed")
    chunks = list(
        client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": "run echo streamed"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_picture_is_in_the_history(server: RunningServer, client: OpenAI) -> None:
    chat = Chat(client)
    address = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
    parts = [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": address}}]
    chat.say(parts)
    first = chat.session_id
    chat.say("run echo seen")
    assert chat.session_id == first
    (file,) = server.ask("GET", f"/v1/sessions/{first}/files").json["attached"]
    assert (file["media_type"], file["size"]) == ("image/png", len(PICTURE))


NEUTRAL = {
    "audio": [None], "frequency_penalty": [0, 0.0, None], "function_call": ["auto", "none", None],
    "functions": [[], None],
    "logit_bias": [{}, None], "logprobs": [False, None], "max_completion_tokens": [1000, None],
    "max_tokens": [1000, None], "metadata": [{}, None], "modalities": [["text"], None], "moderation": [None],
    "n": [1, None], "parallel_tool_calls": [True, False, None], "prediction": [None],
    "presence_penalty": [0, None], "prompt_cache_key": ["k"], "prompt_cache_options": [None],
    "prompt_cache_retention": ["in_memory", None], "reasoning_effort": ["low", None],
    "response_format": [{"type": "text"}, None], "safety_identifier": ["s"], "seed": [1, None],
    "service_tier": ["auto", "default", None], "stop": [[], "x", None], "store": [False, True, None],
    "stream_options": [None], "temperature": [0, 1.0, None], "tool_choice": ["auto", "none", None],
    "tools": [[], None], "top_logprobs": [0, None], "top_p": [1, None], "user": ["me", None],
    "verbosity": ["medium", None], "web_search_options": [None], "of_a_later_version": [None, [], {}],
}  # fmt: skip
"""Parameter -> values that ask for nothing that the server would have to refuse."""


def test_what_clients_send_without_meaning_anything_is_accepted(client: OpenAI) -> None:
    known = set(CompletionCreateParamsBase.__annotations__) - {"messages", "model"}
    assert known <= set(NEUTRAL)
    ask: Any = client.chat.completions.create
    echoed = {"role": "assistant", "content": "x", "tool_calls": [], "function_call": None, "refusal": None,
              "audio": None, "annotations": [], "reasoning_content": None}  # fmt: skip
    messages = [{"role": "user", "content": "a", "name": "me"}, echoed, {"role": "user", "content": "hi"}]
    for at in range(max(map(len, NEUTRAL.values()))):
        given = {name: values[min(at, len(values) - 1)] for name, values in NEUTRAL.items()}
        answer = ask(model="default", messages=messages, extra_body=given)
        assert answer.choices[0].message.content


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "`tools`: the tools of an agent run"),
        ({"functions": [{"name": "f"}]}, "`functions`: the tools of an agent run inside this server"),
        ({"tool_choice": "required"}, "`tool_choice`: the tools of an agent run inside this server"),
        ({"response_format": {"type": "json_object"}}, "`response_format`: the agent decides the form"),
        ({"n": 2}, "`n`: a session has one answer"),
        ({"modalities": ["text", "audio"]}, "`modalities`: answers are texts"),
        (
            {"web_search_options": {"search_context_size": "low"}},
            "`web_search_options`: the tools of an agent",
        ),
        ({"top_k": 5}, "`top_k` is not known here"),
        ({"messages": []}, "messages: List should have at least 1 item"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "The last message has to be one of the user"),
        ({"messages": [{"role": "user", "content": " "}]}, "The last message has to be one of the user"),
        (
            {"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]},
            "`messages`: answers of this server have no tool calls, so no message has the role tool",
        ),
    ],
)
def test_what_the_server_cannot_do_is_refused_in_one_sentence(
    client: OpenAI, changes: dict[str, Any], message: str
) -> None:
    asked: Any = {"model": "default", "messages": [{"role": "user", "content": "hi"}], "extra_body": changes}
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**asked)
    error: Any = refused.value.body
    assert message in error["message"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "usage", None)


def test_a_wrong_token_is_refused_in_the_form_of_openai(server: RunningServer) -> None:
    with connect(server) as client:
        wrong = client.with_options(api_key="wrong")
        with pytest.raises(openai.AuthenticationError) as refused:
            wrong.models.list()
    error: Any = refused.value.body
    assert error["code"] == "unauthorized"


def test_a_call_that_waits_for_approval_is_answered_with_its_page(tmp_path: Path) -> None:
    with serve(tmp_path) as server, connect(server) as client:
        chat = Chat(client)
        notice = chat.say("run echo x >> made.txt")
        page = f"http://127.0.0.1:{server.port}/#/s/{chat.session_id}"
        assert "This waits for a decision:" in notice
        assert page in notice
        assert server.ask("GET", f"/v1/sessions/{chat.session_id}").json["status"] == "needs_approval"
        first = chat.session_id
        assert page in chat.say("run echo then >> made.txt")
        assert chat.session_id == first
        assert not (tmp_path / "work" / "made.txt").exists()
        assert server.ask("POST", f"/v1/sessions/{first}/approve", {}).status == 202
        wait_for(lambda: len(read_questions(server, first)) == 2)
        server.wait_for(first, "needs_approval")
        assert (tmp_path / "work" / "made.txt").read_text() == "x\n"
        assert server.ask("POST", f"/v1/sessions/{first}/approve", {}).status == 202
        server.wait_for(first, "done")
        chat.say("hi")
        assert chat.session_id == first
        assert len(read_questions(server, first)) == 3


def test_a_client_that_goes_away_does_not_stop_the_run_and_finds_it_again(tmp_path: Path) -> None:
    with serve(tmp_path, "--mode", "yolo") as server, connect(server) as client:
        ask: Any = {"model": "default", "messages": [{"role": "user", "content": "run sleep 2; echo x >> n"}]}
        with client.chat.completions.create(stream=True, **ask) as stream:
            next(iter(stream))
        wait_for(lambda: count_sessions(server) == 1)
        found = client.chat.completions.create(**ask)
        assert "sleep 2" in (found.choices[0].message.content or "")
        assert count_sessions(server) == 1
        assert (tmp_path / "work" / "n").read_text() == "x\n"


def test_after_a_kill_in_a_turn_the_same_conversation_goes_on_and_nothing_runs_twice(tmp_path: Path) -> None:
    message = "run echo x >> n; sleep 2"
    with serve(tmp_path, "--mode", "yolo") as server, connect(server) as client:
        chat = Chat(client)
        chat.say("run echo first")
        first = chat.session_id
        messages: Any = [*chat.messages, {"role": "user", "content": message}]
        thread = threading.Thread(target=ask_and_lose, args=(client, messages))
        thread.start()
        wait_for(lambda: (tmp_path / "work" / "n").exists())
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        thread.join()
    with serve(tmp_path, "--mode", "yolo") as server, connect(server) as client:
        chat.client = client
        chat.say(message)
        assert chat.session_id == first
        chat.say("run echo after")
        assert chat.session_id == first
        assert count_sessions(server) == 1
        assert (tmp_path / "work" / "n").read_text() == "x\n"


def ask_and_lose(client: OpenAI, messages: Any) -> None:
    with pytest.raises(openai.APIConnectionError):
        client.chat.completions.create(model="default", messages=messages)
