"""What a model was shown a placeholder for is filled in again by file tools, and by nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect

from sandbur.actions.ports.events import Notice
from sandbur.agent.session.session import Session
from sandbur.state.calls import CallDecision
from sandbur.state.conversation.messages import Message
from sandbur.state.store.store import Store

TOKEN, OTHER = "Zk81-mmPq-0x77-Wv93", "Qr55-ttLo-8b21-Nd06"
KEY = b"the key of the tests"


class Answering(ScriptedModel):
    """A turn may be made of what was said before: of the text of the newest message."""

    async def stream(self, request: Any) -> Any:
        if callable(self.turns[0]) and not isinstance(self.turns[0], Exception):
            make: Any = self.turns[0]
            newest: Message = list(request.messages)[-1]
            said = newest.text or "".join(result.content for result in newest.tool_results)
            self.turns[0] = make(said)
        async for event in super().stream(request):
            yield event


def placeholder(said: str, label: str = "") -> str:
    start = said.index(f"[masked {label}")
    return said[start : said.index("]", start) + 1]


async def opened(store: Store, folder: Path, *turns: Any, **more: Any) -> Session:
    return await open_real(store, Answering(*turns), folder, key=KEY, **more)


def written(path: str, content: str) -> list[tuple[str, dict[str, str]]]:
    return [("write_file", {"path": path, "content": content})]


def shell(command: str) -> list[tuple[str, dict[str, str]]]:
    return [("run_shell_command", {"command": command})]


def outcomes(session: Session) -> list[str]:
    found = [result for message in session.state.chat_history for result in message.tool_results]
    return [f"{result.outcome}: {result.content}" for result in found]


async def test_put_the_password_into_a_file_works(store: Store, tmp_path: Path):
    session = await opened(
        store, tmp_path, lambda said: written(".env", f"DB_PASSWORD={placeholder(said)}\n"), "done"
    )
    await collect(session.send(f"Put DB_PASSWORD={TOKEN} into .env"))
    assert tmp_path.joinpath(".env").read_text() == f"DB_PASSWORD={TOKEN}\n"
    stored = "".join(message.model_dump_json() for message in session.state.chat_history)
    assert TOKEN not in stored


async def test_a_fixture_with_two_secrets_of_one_name_is_rewritten_as_it_was(store: Store, tmp_path: Path):
    path = tmp_path / "fixture.py"
    path.write_text(f'first = dict(password="{TOKEN}")\nsecond = dict(password="{OTHER}")\n')

    def rewritten(said: str) -> Any:
        lines = [line.partition("\t")[2] for line in said.splitlines() if "dict(" in line]
        return written("fixture.py", "\n".join(reversed(lines)) + "\n")

    session = await opened(store, tmp_path, [("read_file", {"path": "fixture.py"})], rewritten, "done")
    await collect(session.send("swap the lines"))
    assert path.read_text() == f'second = dict(password="{OTHER}")\nfirst = dict(password="{TOKEN}")\n'
    assert not any(TOKEN in said or OTHER in said for said in outcomes(session))


async def test_an_edit_finds_the_text_that_a_placeholder_stands_for(store: Store, tmp_path: Path):
    path = tmp_path / "app.ini"
    path.write_text(f"password = {TOKEN}\nport = 1\n")
    edit = {"path": "app.ini", "new": "port = 2"}
    session = await opened(
        store,
        tmp_path,
        [("read_file", {"path": "app.ini"})],
        lambda said: [("edit_file", edit | {"old": f"password = {placeholder(said)}\nport = 1"})],
        "done",
    )
    await collect(session.send("go"))
    assert path.read_text() == "port = 2" + "\n"


async def test_what_is_not_known_for_sure_is_refused_and_the_file_stays(store: Store, tmp_path: Path):
    path = tmp_path / "app.ini"
    path.write_text(f"password = {TOKEN}\n")
    session = await opened(
        store, tmp_path, written("app.ini", "password = [masked value of password ffffff]\n"), "done"
    )
    await collect(session.send("go"))
    assert outcomes(session)[0].startswith("error: content contains [masked value of password ffffff]")
    assert path.read_text() == f"password = {TOKEN}\n"


@pytest.mark.parametrize(
    ("place", "way"),
    [
        ("env", 'Write "$DB_PASSWORD" instead: the variable is set'),
        (".env", "after: set -a; . ./.env; set +a"),
        ("", "Write it into a file with a file tool"),
    ],
)
async def test_a_command_with_a_placeholder_is_refused_with_the_way_that_works(
    store: Store, tmp_path: Path, place: str, way: str
):
    if place == ".env":
        tmp_path.joinpath(".env").write_text(f"DB_PASSWORD={TOKEN}\n")
    env = {"DB_PASSWORD": TOKEN} if place == "env" else {}
    target = tmp_path / "conf"
    command = "cat > conf <<'END'\npassword=[masked value of DB_PASSWORD]\nEND"
    session = await opened(store, tmp_path, shell(command), "done", env=env, mode="interactive")
    await collect(session.send("go"))
    assert outcomes(session)[0].startswith("error: [masked value of DB_PASSWORD] replaces a secret")
    assert way in outcomes(session)[0]
    assert not target.exists()


async def test_a_secret_of_the_models_own_runs_as_it_wrote_it_and_is_stored_masked(
    store: Store, tmp_path: Path
):
    session = await opened(store, tmp_path, shell(f"printf %s password={TOKEN} > out"), "done")
    await collect(session.send("go"))
    assert tmp_path.joinpath("out").read_text() == f"password={TOKEN}"
    use = next(use for message in session.state.chat_history for use in message.tool_uses)
    assert (TOKEN in use.arguments, use.masked) == (False, True)


async def test_an_approval_in_another_process_says_what_was_lost_and_takes_the_arguments_in_full(
    store: Store, tmp_path: Path
):
    command = f"printf %s password={TOKEN} > out"
    session = await opened(store, tmp_path, shell(command), mode="interactive")
    await collect(session.send("go"))
    store.forget(session.id)
    again = await opened(store, tmp_path, "done", mode="interactive")
    call = again.state.pending_tool_calls[0]
    seen, _ = await collect(again.decide([CallDecision(call_id=call.call_id, approved=True)]))
    assert any("kept in memory only" in one.message for one in seen if isinstance(one, Notice))
    assert not tmp_path.joinpath("out").exists()
    edited = CallDecision(call_id=call.call_id, approved=True, arguments=json.dumps({"command": command}))
    await collect(again.decide([edited]))
    assert tmp_path.joinpath("out").read_text() == f"password={TOKEN}"
    assert all(TOKEN not in message.model_dump_json() for message in again.state.chat_history)
