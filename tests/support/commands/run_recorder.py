"""Runs the command with a scripted model and keeps the runs as recordings.

The working folder is /srv/demo, so that no recording contains a path of the machine.
"""

import json
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.commands.command import Command, Ended
from support.models.server import Answer, ModelServer
from support.places import RECORDINGS

PLACE = Path("/srv/demo")
CONFIG = '[context_windows]\n"openai-chat/small" = 9000\n'


class RunRecorder:
    """A run that is being recorded, with a new folder, a new store and a scripted model."""

    def __init__(self, name: str, command: Command, server: ModelServer) -> None:
        self.server = server
        self.id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"sandbur:{name}"))
        self.command = command

    @classmethod
    @contextmanager
    def make(
        cls, name: str, script: Sequence[Answer], provider: str = "openai-chat"
    ) -> Iterator["RunRecorder"]:
        shutil.rmtree(PLACE, ignore_errors=True)
        (PLACE / "site").mkdir(parents=True)
        (PLACE / "config/sandbur").mkdir(parents=True)
        (PLACE / "config/sandbur/config.toml").write_text(CONFIG)
        command = Command(PLACE / "site")
        with ModelServer(script) as server:
            variable, url = (
                ("ANTHROPIC", server.url) if provider == "anthropic" else ("OPENAI", server.base_url)
            )
            command.env |= {
                "HOME": str(PLACE / "home"),
                "SANDBUR_HOME": str(PLACE / "data"),
                "SANDBUR_USER": "demo",
                "XDG_CONFIG_HOME": str(PLACE / "config"),
                f"{variable}_API_KEY": "demo",
                f"{variable}_BASE_URL": url,
            }
            yield cls(name, command, server)
            assert server.rejections == [], server.rejections
            assert server.served == len(script), f"{server.served} of {len(script)} turns were asked for"
        shutil.rmtree(PLACE)

    def start(self, prompt: str, *words: str, model: str = "openai-chat/demo") -> Ended:
        return self.run("-p", prompt, "-m", model, "--session-id", self.id, *words)

    def on(self, prompt: str, *words: str) -> Ended:
        return self.run("-p", prompt, "-r", self.id, *words)

    def resume(self, *words: str) -> Ended:
        return self.run("-p", "-r", self.id, *words)

    def run(self, *words: str, expected: Sequence[int] = (0, 3, 4, 130)) -> Ended:
        ended = self.command.run(*words)
        assert ended.code in expected, (words, ended)
        return ended

    def stop_when(self, until: Callable[[], bool], number: signal.Signals, *words: str) -> None:
        """Run the command until the condition holds, then send a signal."""
        process = self.command.start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not until():
            assert time.monotonic() < deadline, words
            time.sleep(0.05)
        process.send_signal(number)
        process.wait(20)

    def pending(self) -> list[str]:
        view = json.loads(self.run("sessions", "show", self.id, "--json").out)
        return [one["call_id"] for one in view["pending"]]

    def keep(self, name: str, session_id: str | None = None) -> None:
        RECORDINGS.mkdir(exist_ok=True)
        file = RECORDINGS / f"{name}.jsonl"
        file.unlink(missing_ok=True)
        self.run("sessions", "export", session_id or self.id, str(file))
        file.chmod(0o644)
