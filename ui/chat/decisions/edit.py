"""Converts the arguments of a call to text for an editor, and the edited text back to arguments.

Arguments that the person did not change stay the same bytes.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ....actions.tools.registry import traits_of
from ....state.conversation.messages import parse_json_object
from ..input.editor import EditorFailed, choose_editor, in_editor

_HEADING = re.compile(r"(=+) (\"(?:[^\"\\]|\\.)*\"|[^\s=()\"]+)( \(JSON\))? (=+)")
_PLAIN_NAME = re.compile(r"[^\s=()\"]+")
_LEAST_SIGNS = 3
_UNEDITABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
"""Characters that an editor may change or hide; a text with one of them is edited as JSON."""
_END = "(end)"
_HELP = """\
Below each heading is the value of one argument as text; with (JSON), as JSON.
If you delete a heading, its argument is removed. Text above the first heading is ignored.
"""
_USUAL = ("nano", "vi")


class BadEdit(Exception):
    """The edited text is invalid; the message names the line and the problem."""


class EditForm:
    """The arguments of a call as text for an editor: the main argument, or all arguments under headings."""

    def __init__(self, tool: str, arguments: str) -> None:
        self._values = parse_json_object(arguments)
        self._main = _main_text(traits_of(tool).subject, self._values or {})
        self._signs = "=" * _LEAST_SIGNS
        if self._main:
            self.text = (self._values or {})[self._main] + "\n"
        elif self._values:
            self._signs = _signs_beside(self._values)
            self.text = self._as_form(self._values)
        else:
            self.text = arguments + "\n"

    @property
    def is_one_line(self) -> bool:
        return "\n" not in self.text.removesuffix("\n")

    def read(self, text: str) -> str | None:
        """Return the arguments of the edited text as JSON, or None if they are unchanged.

        Raises `BadEdit` if the text is invalid.
        """
        if text == self.text or text == self.text.removesuffix("\n"):
            return None
        # Texts are compared, because 1, 1.0 and True are equal as values.
        new = json.dumps(self._find_name(text), ensure_ascii=False)
        return None if new == json.dumps(self._values, ensure_ascii=False) else new

    def _find_name(self, text: str) -> dict[str, Any]:
        if not self._values:
            return _read_json_object(text)
        if self._main:
            return {**self._values, self._main: text.removesuffix("\n")}
        return self._read_form(text)

    def _as_form(self, values: dict[str, Any]) -> str:
        parts = [_HELP, "\n"]
        for name, value in values.items():
            is_text = _is_plain_text(value)
            body = value if is_text else _as_json(value)
            parts += [f"{self._heading(name, '' if is_text else ' (JSON)')}\n", body, "\n"]
        return "".join([*parts, f"{self._signs} {_END} {self._signs}\n"])

    def _heading(self, name: str, kind: str) -> str:
        display_name = name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)
        return f"{self._signs} {display_name}{kind} {self._signs}"

    def _read_form(self, text: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for block in self._blocks(text):
            if block.name in found:
                raise BadEdit(f"Line {block.line}: there are two headings {block.name!r}.")
            found[block.name] = self._value(block)
        if not found:
            signs = self._signs
            raise BadEdit(f"Line 1: there is no heading. A heading looks like this: {signs} NAME {signs}")
        return found

    def _value(self, block: _Block) -> Any:
        if not block.is_json:
            return block.body
        old = (self._values or {}).get(block.name)
        if block.body == _as_json(old) and block.name in (self._values or {}):
            return old
        try:
            return json.loads(block.body)
        except json.JSONDecodeError as error:
            line = block.line + error.lineno
            raise BadEdit(
                f"Line {line}, argument {block.name!r}: this is not a JSON value: {error.msg}. Texts need"
                ' quotes: "..."; numbers, true and false do not.'
            ) from None
        except (ValueError, RecursionError):
            raise BadEdit(
                f"Line {block.line}, argument {block.name!r}: nested too deeply, or a number with too many"
                " digits."
            ) from None

    def _blocks(self, text: str) -> Iterator[_Block]:
        lines = text.split("\n")
        starts = [
            (at, heading)
            for at, line in enumerate(lines)
            if (heading := self._parse_heading(line)) is not None
        ]
        ends = [at for at, _ in starts[1:]] + [len(lines) - (lines[-1] == "")]
        for (at, (name, is_json)), end in zip(starts, ends, strict=False):
            if name is None:
                _refuse_more(lines, at + 1)
                return
            yield _Block(name, is_json, "\n".join(lines[at + 1 : end]), at + 1)

    def _parse_heading(self, line: str) -> tuple[str | None, bool] | None:
        """Return the name of a heading, or None for the end marker, and whether its value is JSON.

        Return None alone for any other line.
        """
        if line.rstrip() == f"{self._signs} {_END} {self._signs}":
            return None, False
        found = _HEADING.fullmatch(line.rstrip())
        if found is None or not found[1] == found[4] == self._signs:
            return None
        name = found[2]
        return (json.loads(name) if name.startswith('"') else name), bool(found[3])


def _refuse_more(lines: Sequence[str], first: int) -> None:
    """Raise `BadEdit` for text that belongs to no argument."""
    for number, line in enumerate(lines[first:], first + 1):
        if line.strip():
            raise BadEdit(f"Line {number}: this text is after the end mark, so it belongs to no argument.")


class _Block(NamedTuple):
    name: str
    is_json: bool
    body: str
    line: int
    """The line number of the heading, counted from 1."""


def _main_text(subject: str, values: dict[str, Any]) -> str:
    """Return the name of a call's main argument if it is the only text argument; otherwise no name."""
    texts = [name for name, value in values.items() if isinstance(value, str)]
    is_main = len(texts) == 1 and (len(values) == 1 or texts[0] == subject)
    return texts[0] if is_main and _is_plain_text(values[texts[0]]) else ""


def _is_plain_text(value: Any) -> bool:
    return isinstance(value, str) and not _UNEDITABLE.search(value)


def _as_json(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    return json.dumps(value, indent=2, ensure_ascii=False)


def _signs_beside(values: dict[str, Any]) -> str:
    """Return the signs of headings: longer than those at the start of any line of a value."""
    lines = (line for value in values.values() if isinstance(value, str) for line in value.split("\n"))
    longest = max((len(line) - len(line.lstrip("=")) for line in lines), default=0)
    return "=" * max(_LEAST_SIGNS, longest + 1)


def _read_json_object(text: str) -> dict[str, Any]:
    """Parse arguments that were not a JSON object before. Raises `BadEdit` if they still are not."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f"Line {error.lineno}: {error.msg}. " if isinstance(error, json.JSONDecodeError) else ""
        raise BadEdit(f"{where}The arguments must be a JSON object.") from None
    if not isinstance(found, dict):
        raise BadEdit("Line 1: the arguments must be a JSON object.")
    return found  # pyright: ignore[reportUnknownVariableType]


def usual_editor() -> Sequence[str]:
    """Return the command of an installed editor, or an empty list if none is installed."""
    return [found] if (found := next(filter(None, map(shutil.which, _USUAL)), "")) else []


async def edit_text(
    text: str, is_one_line: bool, ask_line: Callable[[str], Awaitable[str | None]]
) -> str | None:
    """Let the person edit a text in an editor or, without an editor, on a line; return the new text.

    Return None if the person cancels. Raises `BadEdit` if the editor does not work.
    """
    try:
        editor = choose_editor() or ([] if is_one_line else usual_editor())
        if editor:
            return await in_editor(editor, text)
    except EditorFailed as problem:
        raise BadEdit(str(problem)) from None
    return await ask_line(text.removesuffix("\n"))
