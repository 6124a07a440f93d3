"""The arguments of a call as text that a person edits, and back: the same bytes where nothing was changed."""

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
"""What an editor may change by itself, or does not show: such a text is edited as JSON."""
_END = "(end)"
_HELP = """\
Below each heading stands the value of one argument, as it is; with (JSON), as JSON.
A heading that is taken out takes its argument out. What stands above the first heading is for you alone.
"""
_USUAL = ("nano", "vi")


class BadEdit(Exception):
    """The changed text cannot be used; the message says what is wrong, and where."""


class EditForm:
    """The text form of a call for editing: its main argument alone, or all of them under headings."""

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
        """Return the arguments in the text as JSON; None if they are unchanged; raises `BadEdit`."""
        if text == self.text or text == self.text.removesuffix("\n"):
            return None
        # As texts: 1, 1.0 and true are equal.
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
                raise BadEdit(f"Line {block.line}: the heading {block.name!r} stands there twice.")
            found[block.name] = self._value(block)
        if not found:
            signs = self._signs
            raise BadEdit(f"Line 1: there is no heading left. One looks like this: {signs} NAME {signs}")
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
                f"Line {line}, argument {block.name!r}: this is no JSON value: {error.msg}. Texts need"
                ' quotes: "..."; numbers, true and false do not.'
            ) from None
        except RecursionError:
            raise BadEdit(f"Line {block.line}, argument {block.name!r}: nested too deeply.") from None

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
        """Return the name in a heading, None for the end marker; nothing for any other line."""
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
            raise BadEdit(f"Line {number}: this stands behind the end, so it belongs to no argument.")


class _Block(NamedTuple):
    name: str
    is_json: bool
    body: str
    line: int
    """Of its heading, counted from 1."""


def _main_text(subject: str, values: dict[str, Any]) -> str:
    """Return the name of a call's main argument, if that is its only text; otherwise an empty name."""
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
    """Return heading marks that do not occur at the start of any line of a value."""
    lines = (line for value in values.values() if isinstance(value, str) for line in value.split("\n"))
    longest = max((len(line) - len(line.lstrip("=")) for line in lines), default=0)
    return "=" * max(_LEAST_SIGNS, longest + 1)


def _read_json_object(text: str) -> dict[str, Any]:
    """Read arguments that were no JSON object before."""
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        where = f"Line {error.lineno}: {error.msg}. " if isinstance(error, json.JSONDecodeError) else ""
        raise BadEdit(f"{where}The arguments must be a JSON object.") from None
    if not isinstance(found, dict):
        raise BadEdit("Line 1: the arguments must be a JSON object.")
    return found  # pyright: ignore[reportUnknownVariableType]


def usual_editor() -> Sequence[str]:
    """Return an installed editor; none if there is none."""
    return [found] if (found := next(filter(None, map(shutil.which, _USUAL)), "")) else []


async def edit_text(
    text: str, is_one_line: bool, ask_line: Callable[[str], Awaitable[str | None]]
) -> str | None:
    """Return the text after editing, in an editor or on a line; None if it is unchanged.

    Raises `BadEdit` if the editor does not work.
    """
    try:
        editor = choose_editor() or ([] if is_one_line else usual_editor())
        if editor:
            return await in_editor(editor, text)
    except EditorFailed as problem:
        raise BadEdit(str(problem)) from None
    return await ask_line(text.removesuffix("\n"))
