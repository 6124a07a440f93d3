"""Headless Chromium, driven by the WebDriver protocol."""

import base64
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from support.required import needs

ResultT = TypeVar("ResultT")

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1600,1000",
)  # fmt: skip
_PATIENCE_S = 120.0


NEEDS_BROWSER = needs("chromium", "chromedriver")


class Browser:
    def __init__(self, client: httpx2.Client, session: str) -> None:
        self._client = client
        self._session = session

    def open(self, url: str) -> None:
        self._do("POST", "url", {"url": url})

    @property
    def url(self) -> str:
        return self._do("GET", "url")

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript in the page; return what it returns."""
        return self._do("POST", "execute/sync", {"script": script, "args": list(arguments)})

    def text(self) -> str:
        """Return the visible text of the page on one line."""
        return " ".join(self.run("return document.body.innerText").split())

    def until(self, look: Callable[[], ResultT]) -> ResultT:
        """Return the first true result of `look`."""
        deadline = time.monotonic() + _PATIENCE_S
        while not (found := look()):
            assert time.monotonic() < deadline, self.text()[:2000]
            time.sleep(0.02)
        return found

    def until_shown(self, text: str) -> str:
        """Wait until the page contains a text; return the text of the page."""
        return self.until(lambda: shown if text in (shown := self.text()) else "")

    def click(self, xpath: str) -> None:
        """Wait for an element that matches, and click on the first one."""
        found = self.until(lambda: self._do("POST", "elements", {"using": "xpath", "value": xpath}))
        self._do("POST", f"element/{found[0][_ELEMENT]}/click", {})

    def type(self, xpath: str, text: str) -> None:
        found = self.until(lambda: self._do("POST", "elements", {"using": "xpath", "value": xpath}))
        self._do("POST", f"element/{found[0][_ELEMENT]}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is."""
        steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._do("POST", "actions", {"actions": [{"type": "key", "id": "keyboard", "actions": steps}]})

    def prefer_colors(self, scheme: str) -> None:
        """Let the page see a preference for `light` or `dark` colours."""
        wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self._do("POST", "goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": wanted})

    def resize(self, width: int, height: int = 800) -> None:
        """Set the size of the page in pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._do("POST", "goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": size})

    @property
    def overflow(self) -> int:
        """The number of pixels that the page is wider than the screen."""
        return self.run("const e = document.documentElement; return e.scrollWidth - e.clientWidth")

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self._do("GET", "screenshot")))

    def log(self, kind: str) -> list[dict[str, Any]]:
        """Return the new entries of a log, `browser` or `performance`, since the last call."""
        return self._do("POST", "se/log", {"type": kind})

    def _do(self, method: str, command: str, body: dict[str, Any] | None = None) -> Any:
        answer = self._client.request(method, f"/session/{self._session}/{command}", json=body)
        value = answer.json()["value"]
        assert answer.status_code == 200, value
        return value


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start a browser with an empty profile, and end it."""
    with tempfile.TemporaryDirectory() as profile:
        command = ["chromedriver", "--port=0"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as driver:
            try:
                yield from _sessions(driver, profile)
            finally:
                driver.terminate()


def _sessions(driver: "subprocess.Popen[str]", profile: str) -> Iterator[Browser]:
    assert driver.stdout is not None
    line = next(line for line in driver.stdout if "successfully on port" in line)
    port = int(line.rstrip(".\n").rpartition(" ")[2])
    options = {"args": [*_FLAGS, f"--user-data-dir={profile}"], "binary": shutil.which("chromium")}
    wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
        answer = client.post("/session", json={"capabilities": {"alwaysMatch": wanted}})
        assert answer.status_code == 200, answer.text
        session = answer.json()["value"]["sessionId"]
        try:
            yield Browser(client, session)
        finally:
            client.delete(f"/session/{session}")
