"""What `docs/content.md` shows is what happens."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.models.files import PDF, base64_of, png
from support.models.server import ModelServer, say
from support.places import ROOT

from sandbur.testing import ScriptedModel, ToolCall

PAGE = (ROOT / "docs" / "content.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "screen.png").write_bytes(png(40, 40))
    (tmp_path / "report.pdf").write_bytes(PDF)
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_the_python_of_the_page_runs(files: Path) -> None:
    model, camera = ScriptedModel(["A dot."] * 3), ScriptedModel([ToolCall("screenshot"), "I see it."])
    names: dict[str, Any] = {"model": model, "camera_model": camera, "store": f"sqlite:///{files}/runs.db"}
    for block in BLOCKS:
        code = compile(block, "docs/content.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        done = eval(code, names)
        if inspect.isawaitable(done):
            await done
    assert names["answer"].output == "A dot."
    assert names["shot"].output == "I see it."
    seen = [file.read() for message in camera.requests[-1].messages for file in message.files]
    assert seen == [png(40, 40)]


def test_the_command_of_the_page_sends_both_files(files: Path) -> None:
    command = Command(files)
    (line,) = re.findall(r"^sandbur (-p .*)$", PAGE, re.M)
    words = re.findall(r'"([^"]*)"|(\S+)', line)
    with ModelServer([say("nothing")]) as server:
        command.env |= {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": server.base_url}
        ended = command.run(*(quoted or plain for quoted, plain in words), "-m", "openai/gpt-x")
        assert ended.code == 0, ended.err
        assert base64_of(png(40, 40)) in server.requests[0].raw
        assert base64_of(PDF) in server.requests[0].raw
