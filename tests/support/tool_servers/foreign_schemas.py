"""Function schemas of another project: the data of the wheel `bfcl-eval`, without its code."""

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from support.required import lacks

FOLDER = Path(sys.prefix, "schemas")
"""The folder of the data. The wheel is not installed, because its dependencies conflict with the tests."""
INSTALL = f"python -m pip install --no-deps --target {FOLDER} 'bfcl-eval>=2026.3.23,<2027'"


class Foreign(NamedTuple):
    name: str
    description: str
    parameters: dict[str, Any]


class Question(NamedTuple):
    """A question with its functions, and the correct calls."""

    functions: tuple[Foreign, ...]
    answers: tuple[tuple[str, dict[str, Any]], ...]


@cache
def folder() -> Path:
    """Return the folder of the data; if it is missing, skip the test, in CI fail the test."""
    found = FOLDER / "bfcl_eval" / "data"
    if not found.is_dir():
        lacks(f"The schemas of others are not here: {INSTALL}")
    return found


@cache
def questions() -> tuple[Question, ...]:
    return tuple(one for file in sorted(folder().glob("*.json")) for one in _questions(file))


def functions() -> Iterator[Foreign]:
    for question in questions():
        yield from question.functions
    for file in sorted((folder() / "multi_turn_func_doc").glob("*.json")):
        for line in _lines(file):
            yield Foreign(line["name"], line["description"], line["parameters"])


def _questions(file: Path) -> Iterator[Question]:
    answers = {
        line["id"]: line["ground_truth"] for line in _lines(file.parent / "possible_answer" / file.name)
    }
    for line in _lines(file):
        known = [
            Foreign(each["name"], each.get("description", ""), each["parameters"])
            for each in line.get("function", ())
        ]
        right = [
            (
                name,
                {key: _value(choices[0]) for key, choices in given.items() if choices and choices[0] != ""},
            )
            for each in answers.get(line["id"], ())
            if isinstance(each, dict)
            for name, given in each.items()
        ]
        yield Question(tuple(known), tuple(right))


def _value(choice: Any) -> Any:
    """Return one of the allowed values of an answer, also inside of objects."""
    if isinstance(choice, dict):
        kept = {key: one[0] if isinstance(one, list) and one else one for key, one in choice.items()}
        return {key: _value(one) for key, one in kept.items() if one != ""}
    return [_value(one) for one in choice] if isinstance(choice, list) else choice


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    if not file.exists() or file.name == "BFCL_v4_format_sensitivity.json":
        return
    for line in file.read_text("utf-8").splitlines():
        yield json.loads(line)
