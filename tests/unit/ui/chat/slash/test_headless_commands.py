"""Commands in a message without a chat: those of the graph, and those of files."""

from support.commands.command import Command


def test_a_command_of_a_file_is_sent_as_what_it_says(command: Command) -> None:
    file = command.folder / "home/.claude/commands/compute.md"
    file.parent.mkdir(parents=True)
    file.write_text("run echo $(($1+2))")
    command.env["HOME"] = str(command.folder / "home")
    ended = command.run("-p", "/compute 40", "-m", "demo", "-y", "--output-format", "json")
    assert (ended.code, ended.result["status"]) == (0, "done")
    assert "42" in ended.result["result"]
    named = ended.result["session_id"]
    compacted = command.run("-p", "-r", named, "/compact")
    assert compacted.code == 0
    assert "/uncompact restores them" in compacted.err + compacted.out
    assert "There is no command /comput" in (command.run("-p", "-r", named, "/comput 1").err)
