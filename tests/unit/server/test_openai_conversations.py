"""Which session a conversation has that a client sends as a whole: after a restart, for others, in part."""

import signal
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from support.network.sandbur_server import serve
from support.stores.databases import ON_POSTGRESQL, fresh_url
from test_openai_chat import Chat, connect, count_sessions, read_questions

from sandbur.state.store.access_tokens import TokenTable
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=ON_POSTGRESQL)])
def test_after_a_kill_a_conversation_goes_on_in_its_session(tmp_path: Path, kind: str) -> None:
    with fresh_url(kind, tmp_path) as url:
        with serve(tmp_path, "--mode", "yolo", store=url) as server, connect(server) as client:
            one, other = Chat(client), Chat(client)
            one.say("run echo alike")
            other.say("run echo alike")
            one.say("run echo of one")
            first = one.session_id
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        with serve(tmp_path, "--mode", "yolo", store=url) as server, connect(server) as client:
            one.client = other.client = client
            one.say("run echo after")
            other.say("run echo after")
            assert one.session_id == first
            assert count_sessions(server) == 2
            assert read_questions(server, other.session_id) == ["run echo alike", "run echo after"]


def test_the_same_conversation_of_another_tenant_is_another_session(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/sandbur.db")
    tokens = [TokenTable(store.database).add(name, name, ("read", "run"))[1] for name in ("red", "blue")]
    store.close()
    with serve(tmp_path, "--mode", "yolo", store=store.url) as server, ExitStack() as stack:
        clients = [stack.enter_context(connect(replace(server, token=token))) for token in tokens]
        red = Chat(clients[0])
        red.say("run echo alike")
        blue = Chat(clients[1], *red.messages)
        blue.say("run echo more")
        assert blue.session_id != red.session_id
        first = red.session_id
        red.say("run echo more")
        assert red.session_id == first


def test_a_client_with_a_part_of_an_answer_goes_on_in_its_session(tmp_path: Path) -> None:
    with serve(tmp_path, "--mode", "yolo") as server, connect(server) as client:
        chat = Chat(client)
        answer = chat.say("run echo whole")
        first = chat.session_id
        chat.messages[-1]["content"] = answer[: len(answer) // 2]
        chat.say("run echo after")
        assert chat.session_id == first


def test_an_edited_answer_makes_another_session(tmp_path: Path) -> None:
    with serve(tmp_path, "--mode", "yolo") as server, connect(server) as client:
        chat = Chat(client)
        chat.say("run echo whole")
        first = chat.session_id
        chat.messages[-1]["content"] = "Something else."
        chat.say("run echo after")
        assert chat.session_id != first


def test_a_conversation_that_another_client_continued_is_forked(tmp_path: Path) -> None:
    with serve(tmp_path, "--mode", "yolo") as server, connect(server) as client:
        chat = Chat(client)
        chat.say("run echo alike")
        first = chat.session_id
        server.ask("POST", f"/v1/sessions/{first}/messages", {"content": "run echo elsewhere"})
        server.wait_for(first, "done")
        chat.say("run echo after")
        details: Any = server.ask("GET", f"/v1/sessions/{chat.session_id}").json
        assert details["forked_from"] == first
        assert read_questions(server, chat.session_id) == ["run echo alike", "run echo after"]


def test_a_conversation_is_continued_twice_from_the_same_answer(tmp_path: Path) -> None:
    with serve(tmp_path, "--mode", "yolo") as server, connect(server) as client:
        chats = [Chat(client)]
        chats[0].say("run echo root")
        chats += [Chat(client, *chats[0].messages) for _ in range(2)]
        for number, chat in enumerate(chats):
            chat.say(f"run echo {number}")
            chat.say("run echo more")
        assert len({chat.session_id for chat in chats}) == 3
        for number, chat in enumerate(chats):
            assert read_questions(server, chat.session_id) == [
                "run echo root", f"run echo {number}", "run echo more",
            ]  # fmt: skip


def test_a_waiting_message_that_is_sent_again_is_not_stored_twice(tmp_path: Path) -> None:
    with serve(tmp_path) as server, connect(server) as client:
        chat = Chat(client)
        chat.say("run echo x >> made.txt")
        for _ in range(2):
            messages: Any = [*chat.messages, {"role": "user", "content": "run echo then"}]
            made: Any = _ask(client, messages)
            assert made.sandbur["session_id"] == chat.session_id
        assert server.ask("POST", f"/v1/sessions/{chat.session_id}/approve", {}).status == 202
        server.wait_for(chat.session_id, "needs_approval", "done")
        assert count_sessions(server) == 1


def _ask(client: OpenAI, messages: Any) -> Any:
    return client.chat.completions.create(model="default", messages=messages)
