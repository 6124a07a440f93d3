"""The web chat of a server with a scripted model, in a browser."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.models.server import Answer, ModelServer, Request, call, say
from support.network.sandbur_server import RunningServer, serve
from support.screens.browser import Browser, open_browser

from sandbur.state.store.access_tokens import SCOPES, TokenTable
from sandbur.state.store.store import Store

SHOTS = os.environ.get("SANDBUR_SHOTS")
"""Where screenshots go, if somebody wants to look at them."""
ESCAPE, ENTER, TAB = "\ue00c", "\ue007", "\ue004"
FIELD = "//textarea[@id='message']"


class Script:
    """Answers by the newest message of the person: each message has its own list of turns."""

    def __init__(self) -> None:
        self.turns: dict[str, list[Answer]] = {}
        self.requests: list[Request] = []

    def add(self, message: str, *turns: Answer) -> str:
        self.turns[message] = list(turns)
        return message

    def __call__(self, request: Request) -> Answer:
        self.requests.append(request)
        body = json.loads(request.raw)
        history: Sequence[Any] = body.get("messages") or body.get("input") or ()
        asked = [str(one.get("content")) for one in history if one.get("role") == "user"]
        for text in reversed(asked):
            for message, turns in self.turns.items():
                if message in text:
                    return turns.pop(0) if turns else say("There is nothing left to say.")
        return say("Nobody has written an answer to this.")


@dataclass
class ChatPage:
    """A server with a token that survives its restart, and a browser with the page."""

    home: Path
    script: Script
    model: ModelServer
    browser: Browser
    token: str
    server: RunningServer = field(init=False)
    flags: tuple[str, ...] = ()

    @contextmanager
    def serving(self, port: int = 0) -> Iterator[RunningServer]:
        keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": self.model.base_url}
        url, flags = f"sqlite:///{self.home}/chat.db", (*self.flags, "--port", str(port))
        with serve(self.home, *flags, model="openai/gpt-test", store=url, env=keys) as running:
            running.token = self.token
            self.server = running
            yield running

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/"

    @property
    def work(self) -> Path:
        return self.home / "work"

    def log_in(self) -> None:
        self.browser.open(self.url)
        self.browser.type("//input[@id='token']", self.token + ENTER)
        self.browser.until(lambda: not self.browser.run("return document.querySelector('dialog[open]')"))

    def start(self, message: str) -> str:
        """Begin a session with a message by the page; return its id."""
        self.browser.open(f"{self.url}#/new")
        self.browser.until(lambda: self.browser.run("return document.body.classList.contains('is-new')"))
        self.send(message)
        self.browser.until(lambda: "#/s/" in self.browser.url)
        return self.browser.url.rpartition("/")[2]

    def send(self, message: str) -> None:
        self.browser.type(FIELD, message + ENTER)

    def until_status(self, *words: str) -> None:
        self.browser.until(
            lambda: self.browser.run("return document.querySelector('#status').innerText") in words
        )

    def until_asked(self) -> None:
        """Wait until a waiting call takes a decision by a key."""
        self.browser.until(lambda: self.count(".approval[data-ready]"))

    def count(self, selector: str) -> int:
        return self.browser.run("return document.querySelectorAll(arguments[0]).length", selector)

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map(one => one.textContent.trim())"
        return self.browser.run(script, selector)

    def keep(self, name: str) -> None:
        if SHOTS:
            self.browser.screenshot(Path(SHOTS) / f"{name}.png")


@contextmanager
def open_chat_page(home: Path, *flags: str) -> Iterator[ChatPage]:
    """Start the model, the server and the browser, and log in with a token of the store."""
    store = Store.open(f"sqlite:///{home}/chat.db")
    _, token = TokenTable(store.database).add("browser", "", SCOPES)
    store.close()
    script = Script()
    with ModelServer(script, check=False) as model, open_browser() as browser:
        page = ChatPage(home, script, model, browser, token, flags=flags)
        with page.serving():
            browser.resize(1440, 900)
            page.log_in()
            yield page


__all__ = ["ENTER", "ESCAPE", "FIELD", "SHOTS", "TAB", "ChatPage", "Script", "call", "open_chat_page", "say"]
