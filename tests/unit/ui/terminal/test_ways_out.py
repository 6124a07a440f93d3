"""No way out shows a planted secret: whatever a model, a tool or a person says, and wherever it is shown."""

import asyncio
import base64
import json
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.models.server import ModelServer, ToolCall, calls, say
from support.samples.secret import draw_random
from support.screens.tracking_reader import asking

from sandbur.agent.history.tracking.burr_backend import StoreBackend
from sandbur.agent.history.tracking.entries import project_id

TOKEN, PASSWORD = "tk-" + draw_random(24), "Pw_" + draw_random(14)
AWS = "AK" + "IA" + draw_random(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
BODY = [draw_random(64) for _ in range(4)]
DASHES = "-" * 5
KEY = "\n".join([f"{DASHES}BEGIN PRIVATE KEY{DASHES}", *BODY, f"{DASHES}END PRIVATE KEY{DASHES}"])
PLANTED = {"the environment": TOKEN, ".env": PASSWORD, "an AWS key": AWS, "a private key": BODY[1]}
SETTINGS = f'token = "{TOKEN}"\npassword = "{PASSWORD}"\naws = "{AWS}"\nkey = """{KEY}"""\n'
SAID = f"It is {TOKEN} and {PASSWORD} and {AWS}.\n{KEY}\nThat is all."
SCRIPT = [
    calls(ToolCall("write_file", json.dumps({"path": "settings.py", "content": SETTINGS})), text=SAID,
          reasoning=SAID),
    calls(ToolCall("run_shell_command", json.dumps({"command": f"cat settings.py; echo {TOKEN} > copy"}))),
    calls(ToolCall("edit_file", json.dumps({"path": "settings.py", "old": "token", "new": "tok"})),
          ToolCall("run_shell_command", json.dumps({"command": f"echo A={AWS} >> .env"}))),
    say(SAID),
]  # fmt: skip
EDITED = {"command": f"echo {PASSWORD} {AWS} > edited; cat edited"}


class Runs:
    """Two runs in which everybody says every secret: one in yolo mode, one with an edited approval."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.shown: list[str] = []
        command.folder.joinpath(".env").write_text(f"DB_PASSWORD={PASSWORD}\n")
        command.env["MY_TOKEN"] = TOKEN
        self.first, _ = self._run([*SCRIPT], "-p", SAID, "-y", "--output-format", "stream-json")
        asking = [
            calls(
                ToolCall("run_shell_command", json.dumps({"command": f"echo {TOKEN} | tee /dev/null"})),
                text=SAID,
            )
        ]
        self.second, asked = self._run(asking, "-p", "go on", "--output-format", "json")
        assert asked.code == 3
        edit = command.folder / "arguments.json"
        edit.write_text(json.dumps(EDITED))
        _, approved = self._run([say(SAID)], "approve", self.second, "--edit", str(edit))
        assert approved.code == 0
        edit.unlink()

    def _run(self, script: list[Any], *words: str) -> tuple[str, Any]:
        model = () if words[0] == "approve" else ("-m", "openai-chat/test")
        with ModelServer(script) as server:
            self.command.env |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.base_url}
            ended = self.command.run(*words, *model)
        assert not server.rejections
        self.shown += [ended.out, ended.err, *(request.raw.decode() for request in server.requests)]
        session = "" if words[0] == "approve" else str(json.loads(ended.out.splitlines()[-1])["session_id"])
        return session, ended

    def out(self, *words: str) -> str:
        ended = self.command.run(*words)
        assert ended.code in (0, 3), ended.err
        return ended.out + ended.err

    def both(self, *words: str) -> str:
        return "".join(
            self.out(*(word.format(id=one) for word in words)) for one in (self.first, self.second)
        )


@pytest.fixture
def runs(command: Command) -> Runs:
    return Runs(command)


def _said_at_once(runs: Runs) -> str:
    return "".join(runs.shown)


def _store(runs: Runs) -> str:
    """Return the bytes of everything in the data folder, and what is packed in them."""
    data = Path(runs.command.env["SANDBUR_HOME"])
    whole = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    with sqlite3.connect(data / "sandbur.db") as store:
        packed = [body for (body,) in store.execute("SELECT body FROM blobs")]
    return (whole + b"".join(zlib.decompressobj().decompress(body) for body in packed)).decode("latin-1")


def _export(runs: Runs) -> str:
    text = runs.both("sessions", "export", "{id}", "-")
    blobs = [json.loads(line) for line in text.splitlines() if '"blob"' in line]
    contents = [zlib.decompressobj().decompress(base64.b64decode(blob["base64"])) for blob in blobs]
    return text + "".join(content.decode("latin-1") for content in contents)


def _tracking(runs: Runs) -> str:
    folder = runs.command.folder

    async def pages() -> str:
        backend = StoreBackend(f"sqlite:///{folder}/data/sandbur.db")
        project = project_id(str(folder))
        found = [
            await backend.get_application_logs(asking(), project, one, None)
            for one in (runs.first, runs.second)
        ]
        return "".join(bytes(page.body).decode() for page in found)

    return asyncio.run(pages())


WAYS: dict[str, Callable[[Runs], str]] = {
    "output, log and requests of the runs": _said_at_once,
    "store": _store,
    "export": _export,
    "report as HTML": lambda runs: runs.both("sessions", "export", "{id}", "-", "--format", "html"),
    "report as Markdown": lambda runs: runs.both("sessions", "export", "{id}", "-", "--format", "md"),
    "tracking pages": _tracking,
    "diff": lambda runs: runs.out("diff", runs.first, runs.second),
    "diff as JSON": lambda runs: runs.out("diff", runs.first, runs.second, "--json"),
    "show": lambda runs: runs.both("sessions", "show", "{id}"),
    "show as JSON": lambda runs: runs.both("sessions", "show", "{id}", "--json"),
    "steps": lambda runs: runs.both("sessions", "show", "{id}", "--steps"),
    "list": lambda runs: runs.out("sessions", "list", "--json"),
    "verify": lambda runs: runs.both("sessions", "verify", "{id}", "-v"),
    "replay": lambda runs: runs.both("replay", "{id}"),
}


def test_no_way_out_shows_a_planted_secret_and_what_ran_is_what_was_written(runs: Runs) -> None:
    shown = {way: find(runs) for way, find in WAYS.items()}
    leaks = [(way, name) for way, text in shown.items() for name, one in PLANTED.items() if one in text]
    assert not leaks, leaks
    assert all(
        "[masked " in shown[way]
        for way in ("store", "export", "report as HTML", "report as Markdown", "diff", "tracking pages")
    )
    folder = runs.command.folder
    assert folder.joinpath("settings.py").read_text() == SETTINGS.replace("token", "tok")
    assert folder.joinpath("copy").read_text() == f"{TOKEN}\n"
    assert folder.joinpath(".env").read_text() == f"DB_PASSWORD={PASSWORD}\nA={AWS}\n"
    assert folder.joinpath("edited").read_text() == f"{PASSWORD} {AWS}\n"
    assert shown["replay"].count("there is no difference") == 2
