"""A list from which a person picks a choice: typing filters, arrows move, Enter picks."""

import asyncio
import re
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyBindingsBase, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.utils import is_dumb_terminal

from ..terminal.terminal import shorten
from ..terminal.text.sanitize import one_line
from ..terminal.text.wrap import window_cells, wrap_words
from .input.composer import Leave, leave_app
from .input.keys import exits
from .input.line_prompt import LinePrompt

_ROWS = 12
_LEAST_ROWS = 3
_PREVIEW_ROWS = 8
_SPARE_ROWS = 4
"""Rows that are reserved for the question, the help and the line above the picker."""
_NARROW = 100
_AHEAD = 2 * _ROWS
"""Number of choices below the cursor that are loaded in advance."""
_PAUSE_S = 0.005
"""The pause between two pages, in which keys are handled."""
_TAB = "\t"
"""The answer that the key Tab gives where the choices are printed."""
_REST_S = 0.08
"""How long the cursor rests before a preview is loaded, in seconds."""

Preview = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the preview of a choice, as lines that are safe on a terminal."""


class Choice(NamedTuple):
    name: str
    """The result of the picker; a filter that equals a name selects its choice first."""
    line: str
    words: str
    """The text that the filter searches."""
    short: str = ""
    """The line for a narrow terminal; empty if it is the same."""


Pages = AsyncIterator[Sequence[Choice]]


def _close_gaps(row: str, cells: int | None) -> str:
    """Return a row that is too wide without the blanks that align its columns."""
    head, text = row[:5], row[5:]
    return row if cells is None or len(row) <= cells else head + re.sub(r"\s{2,}", "  ", text)


class ChoiceList:
    """A list of choices, of which some are loaded only when they are needed."""

    def __init__(self, choices: Sequence[Choice], pages: Pages | None = None, total: int = 0) -> None:
        """`pages` follow `choices`; `total` is the number of all choices, if it is known."""
        self.choices = list(choices)
        self._pages = pages
        self._total = total

    @property
    def size(self) -> int:
        """The number of choices; without a known total, the number of loaded choices."""
        return max(self._total, len(self.choices))

    @property
    def is_whole(self) -> bool:
        return self._pages is None

    async def read_page(self) -> Sequence[Choice]:
        """Load the next page; it is empty at the end."""
        page = (await anext(self._pages, None) if self._pages is not None else None) or ()
        if not page:
            self._pages = None
        self.choices += page
        return page


class Picker:
    """A list of choices with a filter and a cursor."""

    def __init__(
        self,
        question: str,
        choices: Sequence[Choice] | ChoiceList,
        way_out: str,
        from_end: bool = False,
        more: Sequence[Choice] | ChoiceList = (),
        preview: Preview | None = None,
        words: AsyncIterator[Mapping[str, str]] | None = None,
        at: str = "",
    ) -> None:
        """Offer `choices`, or `more` after Tab; the cursor begins at the choice with the name `at`.

        `way_out` describes what Ctrl-C does. `words` yields pages of further texts for the filter, by name of
        the choice; a page is loaded while the filter finds few choices, and an empty page is the last one.
        """
        self._question = question
        self._list = choices if isinstance(choices, ChoiceList) else ChoiceList(choices)
        self._other_list = more if isinstance(more, ChoiceList) else ChoiceList(more)
        self._way_out = way_out
        self._from_end = from_end
        self._preview = preview
        self._previews: dict[str, Sequence[str]] = {}
        self._words = words
        self._searched: dict[str, str] = {}
        for known in (self._list, self._other_list):
            self._search_in(known.choices)
        self._filter = ""
        self._at = 0
        self._app: Application[str] | None = None
        self._moved = asyncio.Event()
        self._is_wanting = asyncio.Event()
        """Set when the cursor or the filter has changed, so that more choices may have to be read."""
        self._found: Sequence[Choice] = ()
        self._narrow("")
        self._at = next((number for number, one in enumerate(self._found) if at and one.name == at), self._at)

    async def run(self) -> str:
        """Return the name of the picked choice. Raises `Leave` if the person or a signal ends the picker."""
        if is_dumb_terminal():
            return await self._run_printed()
        window = Window(FormattedTextControl(self._text, focusable=True, show_cursor=False), wrap_lines=False)
        self._app = Application(
            Layout(window), key_bindings=self._keys(), full_screen=False, erase_when_done=True
        )
        beside = [asyncio.ensure_future(work) for work in (self._read_previews(), self._read_on())]
        try:
            return await self._app.run_async(set_exception_handler=False)
        finally:
            for work in beside:
                work.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _run_printed(self) -> str:
        """Print the choices with numbers, and read a number or a filter, until a choice is picked."""
        while True:
            await self._fill(_ROWS)
            first = max(0, min(self._at, len(self._found) - _ROWS))
            listed = self._found[first : first + _ROWS]
            rows = [f"{number:>3}  {choice.line}" for number, choice in enumerate(listed, 1)]
            head = f"{self._question} {one_line(self._filter)}".rstrip()
            below = self._describe_input(len(listed), self._at - first + 1)
            cells = window_cells()
            wrapped = [line for row in rows for line in wrap_words(_close_gaps(row, cells), cells, " " * 5)]
            text = "\n".join([head, *wrapped, *wrap_words(below, cells, ""), "> "])
            prompt = LinePrompt(text, key_bindings=_ending_keys())
            self._app = prompt.app
            typed = str(await prompt.ask())
            if typed == _TAB:
                self._switch(None)
            elif not typed.strip() and self._found:
                return self._found[self._at].name
            elif typed.strip().isdecimal() and 1 <= int(typed) <= len(listed):
                return listed[int(typed) - 1].name
            else:
                self._narrow(" ".join(typed.split()))

    def _describe_input(self, rows: int, number: int) -> str:
        ways = f"1 to {rows} takes one, Enter takes {number}, words filter," if rows else "Enter lists all,"
        amount = f"{len(self._found)} of {_amount_of(self._list)}"
        return f"{amount}; {ways}{self._describe_tab()} Ctrl-C {self._way_out}"

    def leave(self, exit_code: int) -> bool:
        """End the picker with `Leave`; return whether it was running."""
        return leave_app(self._app, exit_code)

    async def _read_previews(self) -> None:
        """Load the preview of the choice under the cursor when the cursor has not moved for a moment."""
        while self._preview is not None:
            await self._moved.wait()
            self._moved.clear()
            await asyncio.sleep(_REST_S)
            name = self._found[self._at].name if self._found else ""
            if name and name not in self._previews and not self._moved.is_set():
                self._previews[name] = await self._preview(name)
                self._draw()

    async def _read_on(self) -> None:
        """Load more choices, and texts for the filter, while too few choices are below the cursor."""
        while True:
            await self._is_wanting.wait()
            self._is_wanting.clear()
            await self._fill(_AHEAD)

    async def _fill(self, ahead: int) -> None:
        """Load choices, and texts for the filter, until more than `ahead` choices are below the cursor."""
        while len(self._found) - self._at <= ahead:
            if not (self._filter and await self._read_words()) and not await self._read_choices():
                break
            self._draw()
            await asyncio.sleep(_PAUSE_S)

    async def _read_words(self) -> bool:
        """Load a page of texts for the filter; return False at the end."""
        page = (await anext(self._words, None) if self._words is not None else None) or {}
        found = {choice.name for choice in self._found}
        for name, words in page.items():
            self._searched[name] = f"{self._searched.get(name, '')} {words.lower()}"
        if any(name not in found and self._fits(name) for name in page):
            self._look(self._list.choices, keeps=True)
        return bool(page)

    async def _read_choices(self) -> bool:
        """Load a page of choices; return False at the end."""
        wanted = self._list
        page = await wanted.read_page()
        self._search_in(page)
        if wanted is self._list:
            self._found = [*self._found, *(choice for choice in page if self._fits(choice.name))]
            self._moved.set()
        return bool(page)

    def _search_in(self, choices: Sequence[Choice]) -> None:
        for choice in choices:
            self._searched.setdefault(choice.name, f"{choice.words} {choice.name}".lower())

    def _fits(self, name: str) -> bool:
        return all(word in self._searched[name] for word in self._filter.lower().split())

    def _draw(self) -> None:
        if self._app is not None and self._app.is_running:
            self._app.invalidate()

    def _text(self) -> StyleAndTextTuples:
        size = get_app().output.get_size()
        preview = self._preview_lines(size.columns) if self._preview is not None else []
        rows = max(_LEAST_ROWS, min(_ROWS, size.rows - _SPARE_ROWS - (_PREVIEW_ROWS if preview else 0)))
        head = shorten(f"{self._question} {one_line(self._filter)}", size.columns - 1, "...")
        lines: StyleAndTextTuples = [("bold", f"{head}\n")]
        first = max(0, min(self._at - rows // 2, len(self._found) - rows))
        for number, choice in enumerate(self._found[first : first + rows], first):
            style, mark = ("reverse", ">") if number == self._at else ("", " ")
            line = choice.short if choice.short and size.columns < _NARROW else choice.line
            lines.append((style, f"{mark} {shorten(line, size.columns - 3, '...')}\n"))
        lines += [("ansibrightblack", f"{line}\n") for line in preview]
        return [*lines, ("", self._describe_keys(size.columns))]

    def _describe_keys(self, columns: int) -> str:
        ways = f"type to filter, Enter takes,{self._describe_tab()} Ctrl-C {self._way_out}"
        text = f"{len(self._found)} of {_amount_of(self._list)}; {ways}"
        return textwrap.fill(text, columns - 1, initial_indent="  ", subsequent_indent="  ")

    def _describe_tab(self) -> str:
        other = self._other_list
        less = "all" if other.size > self._list.size else "only"
        return f" Tab shows {less} {_amount_of(other)}," if other.size else ""

    def _preview_lines(self, columns: int) -> list[str]:
        name = self._found[self._at].name if self._found else ""
        lines = self._previews.get(name)
        if lines is None:
            return ["  ..."] if name else []
        wrapped = [part for line in lines for part in _wrap(line, columns - 2)]
        return wrapped[:_PREVIEW_ROWS]

    def _keys(self) -> KeyBindingsBase:
        keys = KeyBindings()
        for key, by in (("up", -1), ("down", 1), ("pageup", -_ROWS), ("pagedown", _ROWS)):
            keys.add(key)(self._make_move(by))
        keys.add("backspace")(self._shorten)
        keys.add("c-u")(self._clear)
        keys.add(Keys.Any)(self._type_key)
        keys.add(Keys.BracketedPaste)(self._paste)
        keys.add("enter")(self._take)
        keys.add("tab")(self._switch)
        return merge_key_bindings([keys, _leaving_keys()])

    def _make_move(self, by: int) -> Callable[[KeyPressEvent], None]:
        def move(event: KeyPressEvent) -> None:
            self._at = max(0, min(self._at + by, len(self._found) - 1))
            self._moved.set()
            self._is_wanting.set()

        return move

    def _shorten(self, event: KeyPressEvent) -> None:
        self._narrow(self._filter[:-1])

    def _clear(self, event: KeyPressEvent) -> None:
        self._narrow("")

    def _narrow(self, text: str) -> None:
        # A longer filter matches only choices that the shorter one matched.
        is_narrower = bool(self._filter) and text.startswith(self._filter)
        among = self._found if is_narrower else self._list.choices
        self._filter = text
        self._look(among)

    def _look(self, among: Sequence[Choice], keeps: bool = False) -> None:
        """Apply the filter to `among`; move the cursor to the best match, with `keeps` leave its choice."""
        before = self._found[self._at].name if keeps and self._found else self._filter
        self._found = [choice for choice in among if self._fits(choice.name)]
        named = (number for number, choice in enumerate(self._found) if choice.name == before)
        self._at = next(named, max(0, len(self._found) - 1) if self._from_end else 0)
        self._moved.set()
        self._is_wanting.set()

    def _type_key(self, event: KeyPressEvent) -> None:
        if event.data.isprintable():
            self._narrow(self._filter + event.data)

    def _paste(self, event: KeyPressEvent) -> None:
        self._narrow(self._filter + " ".join(event.data.split()))

    def _switch(self, event: KeyPressEvent | None) -> None:
        if self._other_list.size:
            self._list, self._other_list = self._other_list, self._list
            self._look(self._list.choices)

    def _take(self, event: KeyPressEvent) -> None:
        if self._found:
            event.app.exit(result=self._found[self._at].name)


def _leaving_keys() -> KeyBindings:
    keys = KeyBindings()
    for way_out in ("c-c", "c-d", "escape", "<sigint>"):
        keys.add(way_out)(exits(exception=Leave(130)))
    return keys


def _ending_keys() -> KeyBindings:
    """Return the keys that end the line below printed choices."""
    keys = _leaving_keys()
    keys.add("tab")(exits(result=_TAB))
    return keys


def _amount_of(choices: ChoiceList) -> str:
    return f"{choices.size}{'' if choices.is_whole or choices.size > len(choices.choices) else '+'}"


def _wrap(line: str, columns: int) -> list[str]:
    return textwrap.wrap(
        line, columns, initial_indent="  ", subsequent_indent="    ", max_lines=3, placeholder=" ..."
    )
