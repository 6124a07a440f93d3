"""The page about tools of one's own: its programs run, and what it says of errors is what is said."""

import re

import pytest
from support.commands.command import Command
from support.commands.programs import run_program
from support.places import ROOT

from sandbur.actions.ports import BadArguments

PAGE = (ROOT / "docs" / "tools.md").read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_page_runs(command: Command, program: str) -> None:
    assert run_program(command, program) == ("21.5 degrees.\n" if "print(" in program else "")


def test_what_the_page_says_of_wrong_arguments_is_what_a_model_is_told() -> None:
    names: dict[str, object] = {}
    exec(compile(next(text for text in PROGRAMS if "def order" in text), "page", "exec"), names)
    order: object = names["order"]
    sentence = re.findall(r"`(order: .*?Expected): ", PAGE)[0]
    with pytest.raises(BadArguments, match=re.escape(sentence)):
        order.parse('{"dish": "soup", "size": "s", "to": {"street": "A"}, "count": 12}')  # pyright: ignore
