"""`@path` in a message: what goes with it, what is refused, and what it is found by."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document as Typed
from support.models.files import png

from sandbur.actions.tools.registry import builtin_tools
from sandbur.agent.policy.gate import Policy
from sandbur.agent.policy.judge import Judge
from sandbur.agent.policy.rules.rules import parse_rules
from sandbur.state.conversation.attachments import Image
from sandbur.ui.chat.input.completion import FileCompleter
from sandbur.ui.chat.input.files.attached_files import Mentioned, with_named_files
from sandbur.ui.chat.input.files.mentions import as_mention, without_files
from sandbur.ui.chat.input.files.project_files import ProjectFiles


def sent(text: str, cwd: Path, deny: Sequence[str] = ()) -> Mentioned:
    judge = Judge(Policy([], parse_rules(deny), cwd), builtin_tools())
    return with_named_files(text, cwd, lambda path: judge.reading_verdict(path, "interactive"), lambda _: "")


def test_a_file_goes_with_the_message_in_a_block_and_is_no_part_of_a_draft(tmp_path: Path) -> None:
    (tmp_path / "a b.py").write_text("x = 1\n</file>\n")
    found = sent('why is @"a b.py" wrong?', tmp_path)
    assert found.content == (
        'why is @"a b.py" wrong?\n\n<file path="a b.py" has="2 lines">\nx = 1\n<\\/file>\n</file>'
    )
    assert found.notices == ((True, "Attached: a b.py (2 lines)"),)
    assert without_files(str(found.content)) == 'why is @"a b.py" wrong?'


def test_a_name_at_the_end_of_a_sentence_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    assert sent("look at @a.py, and (say) @a.py.", tmp_path).notices == ((True, "Attached: a.py (1 line)"),)


@pytest.mark.parametrize("text", ["mail me@a.py", "@property is a decorator", "nothing", "/mode @a.py", "@"])
def test_an_at_sign_that_names_nothing_stays_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_text("x")
    assert sent(text, tmp_path) == Mentioned(text)


def test_of_a_large_file_both_ends_go_with_the_message(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"line {n}\n" for n in range(200_000)))
    text = str(sent("@log", tmp_path).content)
    assert len(text) < 60_000
    assert "line 0\n" in text
    assert "left out ...]\n" in text
    assert text.endswith("line 199999\n</file>")


def test_a_folder_is_listed(tmp_path: Path) -> None:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "a.py").touch()
    content = str(sent("@src", tmp_path).content)
    assert content.endswith('<folder path="src" has="2 entries">\na.py\ndeep/\n</folder>')


def test_what_leads_outside_holds_secrets_or_is_denied_is_refused_with_a_sentence(tmp_path: Path) -> None:
    cwd = tmp_path / "project"
    cwd.mkdir()
    (tmp_path / "other").write_text("x")
    (cwd / ".env").write_text("KEY=1")
    (cwd / "hidden.txt").write_text("x")
    (cwd / "link").symlink_to(tmp_path / "other")
    os.mkfifo(cwd / "pipe")
    found = sent("@../other @.env @hidden.txt @link @pipe", cwd, deny=["read_file(hidden.txt)"])
    assert found.content == "@../other @.env @hidden.txt @link @pipe"
    assert [is_there for is_there, _ in found.notices] == [False] * 5
    for (_, line), why in zip(
        found.notices, ("outside", "secrets", "denied by rule", "outside", "a named pipe"), strict=True
    ):
        assert why in line


def test_a_picture_that_is_dropped_on_the_line_is_attached(tmp_path: Path) -> None:
    cwd, picture = tmp_path / "project", tmp_path / "my square.png"
    cwd.mkdir()
    picture.write_bytes(png(30, 30))
    text = str(picture)
    for pasted in (f"'{text}'", text.replace(" ", "\\ "), f"file://{text.replace(' ', '%20')}"):
        assert as_mention(pasted) == f'@"{picture}" '
    assert as_mention("see /tmp/none.png") == "see /tmp/none.png"
    content = sent(f'what is @"{picture}" ?', cwd).content
    assert isinstance(content[0], Image)
    assert content[1] == f'what is @"{picture}" ?'


def test_files_are_found_by_letters_of_their_path_without_what_git_ignores(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("built/\n")
    for name in ("src/parser.py", "src/parsing/deep.py", "docs/a_parser.md", "built/parser.py", "server.key"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    files = ProjectFiles(tmp_path)
    found = ["src/parsing/", "src/parser.py", "docs/a_parser.md", "src/parsing/deep.py"]
    assert files.matching("pars") == found
    assert files.matching("sppy") == ["src/parser.py", "src/parsing/deep.py"]
    assert files.matching("key") == []
    assert files.matching("./s") == ["./src/"]


def test_the_menu_offers_files_behind_an_at_sign_anywhere_in_the_text(tmp_path: Path) -> None:
    (tmp_path / "with blank.py").touch()
    offered = FileCompleter(tmp_path).get_completions(Typed("look at @bla"), CompleteEvent())
    assert [(one.text, one.start_position) for one in offered] == [('@"with blank.py"', -4)]
    assert not list(FileCompleter(tmp_path).get_completions(Typed("me@bla"), CompleteEvent()))
