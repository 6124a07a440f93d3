"""What `docs/files.md` shows is what happens."""

import ast
import inspect
import re
from typing import Any

from support.places import ROOT

from sandbur.testing import ScriptedModel, ToolCall, temporary_store

PAGE = (ROOT / "docs" / "files.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


async def test_the_python_of_the_page_runs() -> None:
    model = ScriptedModel(
        [
            ToolCall("write_file", path="/memories/customer.md", content="prefers mail\n"),
            "Noted.",
            ToolCall("read_file", path="/memories/customer.md"),
            "By mail.",
        ]
    )
    clerk = ScriptedModel([ToolCall("write_file", path="/note.md", content="hello"), "There it is."])
    look = ToolCall("glob", pattern="docs/files.md", path="/workspace")
    writer = ScriptedModel([look, ToolCall("write_file", path="/pages", content="files"), "One."])
    with temporary_store() as store:
        names: dict[str, Any] = {
            "model": model, "clerk_model": clerk, "writer_model": writer, "store": store.url
        }  # fmt: skip
        for block in BLOCKS:
            code = compile(block, "docs/files.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            done = eval(code, names)
            if inspect.isawaitable(done):
                await done
    assert (names["first"].output, names["later"].output) == ("Noted.", "By mail.")
    (read,) = [one for message in model.requests[-1].messages for one in message.tool_results]
    assert read.content == "     1\tprefers mail"
    assert names["shelf"].kept == {"/note.md": b"hello"}
    found = [one.content for message in writer.requests[-1].messages for one in message.tool_results]
    assert found == ["/workspace/docs/files.md", "Created /pages: 1 line, 5 bytes."]
