"""The page about commands lists those of the table, in its words."""

import re

from support.places import ROOT

from sandbur.ui.chat.slash.table import COMMANDS, ENTRIES, editor_entries, usage_of

PAGE = (ROOT / "docs" / "commands.md").read_text("utf-8")


def rows() -> list[str]:
    in_editors = {one.name for one in editor_entries()}
    return [
        f"| `{usage_of(one)}` | {one.summary} | {yes(one.at_question)} | {yes(one.name in in_editors)} |"
        for one in COMMANDS
    ]


def yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def test_the_table_on_the_page_is_that_of_the_chat() -> None:
    table = re.findall(r"<!-- commands -->\n(.*?)<!-- end of commands -->", PAGE, re.S)[0]
    head = ["| command | what it does | at a question | in an editor |", "|---|---|---|---|"]
    assert table.splitlines() == [*head, *rows()]


def test_a_command_that_the_page_speaks_of_is_there() -> None:
    named = set(re.findall(r"`/([a-z]+)", PAGE))
    assert named - {one.name for one in ENTRIES} <= {"etc", "git"}
