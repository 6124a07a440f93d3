"""What was in files of secrets is kept nowhere: not in the store, not in the snapshots beside it."""

from pathlib import Path

import pytest
from support.models.real_ports import open_real
from support.models.scripted import Call, ScriptedModel, collect
from support.samples.secret import draw_random

from sandbur.state.store.store import Store

WORD = "correct-horse-" + draw_random(6)
AWS = "AK" + "IA" + draw_random(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


@pytest.mark.parametrize(
    ("name", "content"),
    [(".env.local", f"NOTE=word\n{WORD}\n"), ("id_ed25519", f"{WORD}\n"), ("settings.py", f'ID = "{AWS}"\n')],
)
@pytest.mark.parametrize("is_command", [True, False])
async def test_the_old_content_of_a_secret_is_in_no_file_of_ours_and_the_model_is_told(
    store: Store, tmp_path: Path, name: str, content: str, is_command: bool
):
    folder = tmp_path / "work"
    folder.mkdir()
    folder.joinpath(name).write_text(content)
    folder.joinpath("plain.txt").write_text("kept\n")
    command = f"echo new > {name}; echo new > plain.txt"
    calls: list[Call] = [("run_shell_command", {"command": command})]
    if not is_command:
        calls = [("write_file", {"path": file, "content": "new\n"}) for file in (name, "plain.txt")]
    session = await open_real(store, ScriptedModel(calls, "done"), folder)
    await collect(session.send("go"))
    said = "".join(one.content for message in session.state.chat_history for one in message.tool_results)
    assert "was not stored" in said
    files = store.open_files(session.id)
    changes = {one.change.path: one.change for one in files.list_changes()}
    kept = {Path(path).name: files.read_content(change.before or "") for path, change in changes.items()}
    assert kept == {name: None, "plain.txt": b"kept\n"}
    ours = [path for path in folder.joinpath("home").rglob("*") if path.is_file()]
    assert [path for path in ours if content.split()[-1].encode() in path.read_bytes()] == []
