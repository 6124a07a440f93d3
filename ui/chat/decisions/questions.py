"""Asks questions in the chat: the person answers with one of a few keys, or with a line of text."""

import asyncio
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.renderer import CPR_Support
from rich.cells import cell_len
from rich.text import Text

from ....actions.turn.commands import is_command, parse_shell_command
from ....state.lazy_dataclass import dataclass
from ...headless.headless import clean
from ...terminal.render import Renderer
from ...terminal.standard_output import is_behind
from ...terminal.terminal import can_redraw, forget_typed, make_console, shorten
from ...terminal.text.diffs import Line, emphasize
from ...terminal.text.sanitize import one_line
from ...terminal.text.wrap import flow, frame_lines, in_frame
from ..input.composer import Leave, leave_app
from ..input.keys import ESCAPE_S, exits, quick_escape
from ..input.line_prompt import LinePrompt
from ..input.pastes import Pastes
from ..input.suspend import stop_at_prompt
from ..input.wait_for_input import at_prompt

DEAF_S = 0.2
"""Keys are ignored for this long after the question appeared, and after another ignored key, because they
were typed before the person saw the question."""
QUIET_S = 0.15 + ESCAPE_S
"""A key is an answer if no other key follows for this long; otherwise it begins a word. The time contains the
wait after Escape."""
_CONFIRMS = "Enter confirms"
_CONSENT = frozenset((
    "y", "yes", "yes please", "yep", "yeah", "yup", "ok", "okay", "k", "sure", "fine", "go", "go ahead",
    "do it", "please do", "approve", "approved", "allow", "accept", "confirm", "confirmed", "agreed", "ja",
    "oui", "si", "sí", "sim", "да", "はい", "네", "是", "是的", "好", "好的", "好吧", "可以", "行", "嗯",
    "对", "同意", "批准", "允许", "确认", "继续",
))  # fmt: skip
"""Lines of text that say yes, in lower case."""
_NO_ANSWER = ("c-c", "<sigint>", "c-d", "escape")


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """The answer to a question: an offered key, or a line of text. Both are empty if there was no answer."""

    key: str = ""
    text: str = ""


EMPTY_LINE = GivenAnswer("enter")
"""Enter without a text, where that is an answer."""


class OneKey:
    """A question. A key in `firm` needs Enter after it; a key in `safe` answers at once.

    `text_means` describes what a line of text does; empty if text is not an answer.
    """

    def __init__(
        self,
        question: str,
        keys: Iterable[str],
        firm: str = "",
        text_means: str = "",
        safe: str = "",
        during_run: bool = False,
        takes_empty_line: bool = False,
    ) -> None:
        """With `during_run`, the run handles signals. With `takes_empty_line`, Enter alone is an answer."""
        self.listens = False
        self._is_displayed = False
        self._keys = tuple(keys)
        self._firm = firm
        self._safe = safe
        self._text_means = text_means
        self._is_during_run = during_run
        self._takes_empty_line = takes_empty_line
        self._alone = ""
        """The offered key if it is the only text on the line, otherwise empty."""
        self._timer: asyncio.TimerHandle | None = None
        self._pastes = Pastes()
        self.prompt = LinePrompt(
            question, key_bindings=self._bindings(), rprompt=self._hint, erase_when_done=True
        )
        self.prompt.default_buffer.on_text_changed += self._has_changed
        self.prompt.app.key_processor.before_key_press += self._follow
        quick_escape(self.prompt.app)
        # One line needs no cursor position, and the terminal's reply would be discarded with the keys.
        self.prompt.app.renderer.cpr_support = CPR_Support.NOT_SUPPORTED

    async def ask(self) -> GivenAnswer:
        """Return the typed key or line; the answer is empty after Ctrl-C, Ctrl-D or Escape.

        A word of consent decides nothing: the key is asked for again.
        """
        while _is_consent((answer := await self.ask_once()).text):
            make_console(sys.stdout).print(_ask_for_key(self._keys), style="yellow")
        return answer

    async def ask_once(self) -> GivenAnswer:
        """Return the typed key or line, which may be a word of consent."""
        self.listens = self._is_displayed = False
        clear_typeahead(self.prompt.app.input)
        self.prompt.app.after_render += self._show
        try:
            return await self.prompt.ask(handle_sigint=not self._is_during_run)
        finally:
            self._wait(0, None)

    async def ask_alone(self) -> GivenAnswer:
        """Ask outside of a chat, where nothing else handles signals: a signal ends the process."""
        try:
            return await at_prompt(self.ask(), lambda code: leave_app(self.prompt.app, code))
        except Leave as leaving:
            raise SystemExit(leaving.exit_code) from None

    def _show(self, _: object) -> None:
        if not self._is_displayed:
            self._is_displayed = True
            self._ignore_early_keys()

    def _ignore_early_keys(self) -> None:
        """Ignore keys until the question has been on the screen for a moment."""
        if is_behind():  # the terminal is stopped, so the question is not on the screen yet
            self._wait(DEAF_S, self._ignore_early_keys)
        else:
            forget_typed()
            self._wait(DEAF_S, self._listen)

    @property
    def is_ready(self) -> bool:
        """True while a key would be accepted, and no key waits for confirmation."""
        return self.listens and self._timer is None

    def _listen(self) -> None:
        self.listens = True
        self._timer = None

    def _wait(self, seconds: float, act: Callable[[], None] | None) -> None:
        """Call `act` after a delay, and cancel the call that is still waiting; None only cancels."""
        if self._timer is not None:
            self._timer.cancel()
        # The event loop reads waiting keys before it calls a timer that is due.
        self._timer = asyncio.get_running_loop().call_later(seconds, act) if act else None

    def _has_changed(self, _: object) -> None:
        self._alone = ""

    def _follow(self, _: object) -> None:
        if self.listens:
            self._wait(0, None)

    def _hint(self) -> str:
        text = self.prompt.default_buffer.text
        if self._alone:
            return _CONFIRMS if self._alone in self._firm else ""
        is_message = bool(text and self._text_means) and not text.startswith("/")
        return f"Enter: {self._text_means}" if is_message else ""

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        for key in self._keys:
            bindings.add(key)(self._letter)
        for key in ("enter", "c-j"):
            bindings.add(key)(self._enter)
        for key in _NO_ANSWER:
            bindings.add(key)(exits(result=GivenAnswer()))
        bindings.add("c-z")(stop_at_prompt)
        for key in ("c-r", "c-s", "c-o"):
            bindings.add(key)(_nothing)
        bindings.add(Keys.BracketedPaste)(self._paste)
        bindings.add(Keys.Any, filter=Condition(lambda: not self.listens), eager=True)(self._warn_too_early)
        return bindings

    def _warn_too_early(self, event: KeyPressEvent) -> None:
        if self._is_displayed and event.key_sequence[0].key not in _NO_ANSWER:
            self._wait(DEAF_S, self._listen)

    def _letter(self, event: KeyPressEvent) -> None:
        """Insert an offered key. On the empty line it is the answer if no other key follows soon."""
        key, is_first = event.data, not event.current_buffer.text
        event.current_buffer.insert_text(key)
        if is_first:
            self._alone = key
            if key in self._safe:
                self._take(event.app)
            elif key in self._firm:
                self.prompt.hint(_CONFIRMS)
            else:
                self._wait(QUIET_S, lambda: self._take(event.app))

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if self._alone:
            self._wait(QUIET_S, lambda: self._take(event.app))
        elif buffer.text.strip() in self._keys:
            # A single letter that was pasted or left of a word is neither a key nor a reason.
            buffer.reset()
        elif buffer.text.strip():
            text = clean(self._pastes.unfold(buffer.text)).strip()
            event.app.exit(result=GivenAnswer(text=text))
        elif self._takes_empty_line:
            self._alone = ""
            event.app.exit(result=EMPTY_LINE)

    def _paste(self, event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(self._pastes.fold_paste(event.data))

    def _take(self, app: Application[Any]) -> None:
        if self._alone and not app.is_done:
            app.exit(result=GivenAnswer(key=self._alone))


def _nothing(event: KeyPressEvent) -> None:
    pass


_MAX_ECHO_CHARS = 200
_NARROW = 50


class CommandTyped(Exception):
    """The person answered a question with a slash command or a shell command."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Questions:
    """Asks one question at a time."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self._question: OneKey | None = None
        self._open: LinePrompt | None = None
        self._is_framed = False
        """True while a frame is open, which the row with the keys closes."""
        self.is_during_run = False
        """True while a run goes on beside the questions and handles signals."""

    @property
    def is_listening(self) -> bool:
        """True while a key or a line would be accepted."""
        if self._question is not None:
            return self._question.is_ready
        return self._open is not None and self._open.app.is_running

    @property
    def draft(self) -> str:
        """The text that is typed on the line of the question."""
        return "" if self._open is None else self._open.default_buffer.text

    def leave(self, exit_code: int) -> bool:
        """End a running question with `Leave`; return whether one was running."""
        return leave_app(self._open.app if self._open is not None else None, exit_code)

    @property
    def room(self) -> int:
        """The width of a line in the frame, in columns."""
        return max(10, self.renderer.console.width - len("| ") - 1)

    def wrap_fact(self, label: str, text: str, style: str = "") -> Iterator[Line]:
        """Yield a fact as wrapped lines for the frame, after its label."""

        # On a narrow terminal the text begins below its label.
        indent = len(label) if self.room > _NARROW else 2
        lines = Text(text).wrap(self.renderer.console, self.room - indent)
        if indent < len(label):
            yield style, label.rstrip()
            label = " " * indent
        for number, line in enumerate(lines):
            yield style, f"{' ' * indent if number else label}{line.plain}"

    def cut(self, text: str) -> str:
        """Return a text that is cut to one line of the frame."""
        return shorten(text, self.room, self.renderer.glyphs.rest)

    def show(self, heading: str, body: Iterable[Line], name: str = "") -> None:
        """Show the subject of the next question in a frame.

        `name` is a dim text after the heading, such as the tool's name in rules, or who asks. It is left out
        if there is no room.
        """
        glyphs, console = self.renderer.glyphs, self.renderer.console
        cells = console.width if can_redraw(console) else None
        title = f"{heading}  {name}" if name else heading
        if cells is not None and cell_len(title) > cells - 2:
            title = heading
        top = emphasize(title, "not bold dim", [(len(heading), len(title))]).after(f"{glyphs.top} ")
        self.renderer.lines([("", ""), ("caution", top), *frame_lines(body, cells, glyphs)])
        self._is_framed = True

    async def key(self, question: str, choices: dict[str, str], firm: str = "") -> str:
        """Return the key that the person pressed, or an empty text if the person leaves the question open."""
        while (answer := await self._ask(question, choices, firm=firm)).text:
            self.renderer.lines([("yellow", f"  Press one of the keys {'/'.join(choices)}.")])
        return answer.key

    async def answer(
        self, question: str, choices: dict[str, str], text_means: str, safe: str = "", firm: str = ""
    ) -> GivenAnswer:
        """Return the key of a choice, or a line of text. Raises `CommandTyped` if the line is a command.

        A `safe` key answers at once, a `firm` key needs Enter. A word of consent is no message, and approves
        nothing: the question is asked again.
        """
        answer = await self._ask(question, choices, text_means, firm, safe)
        while _is_consent(answer.text):
            self.renderer.lines([("yellow", _ask_for_key(choices))])
            answer = await self._ask(question, choices, text_means, firm, safe)
        if is_command(answer.text) or parse_shell_command(answer.text) is not None:
            raise CommandTyped(answer.text)
        return answer

    async def reply(self, question: str, choices: dict[str, str]) -> GivenAnswer:
        """Return the answer to a question of a running call: a key, a line of text or `EMPTY_LINE`.

        It is neither if the person leaves the question open.
        """
        self._offer([f"[{key}] {text}" for key, text in choices.items()])
        keys = [key for key in choices if len(key) == 1]
        label = f"{question} [{'/'.join(keys)}] " if keys else f"{question} "
        asked = OneKey(label, keys, during_run=True, takes_empty_line=True)
        return await self._read(asked, choices)

    async def _ask(
        self, question: str, choices: dict[str, str], text_means: str = "", firm: str = "", safe: str = ""
    ) -> GivenAnswer:
        self._offer([f"[{key}] {text}" for key, text in choices.items()])
        label = f"{question} [{'/'.join(choices)}] "
        return await self._read(OneKey(label, choices, firm, text_means, safe, self.is_during_run), choices)

    async def _read(self, question: OneKey, choices: dict[str, str]) -> GivenAnswer:
        """Return the answer, and print it."""
        self._question, self._open = question, question.prompt
        try:
            answer = await question.ask_once()
        finally:
            self._question = self._open = None
        answer_text = one_line(answer.text[:_MAX_ECHO_CHARS]) or choices.get(answer.key, "left open")
        self.renderer.lines([("bold", f"  {self.renderer.glyphs.prompt} {answer_text}")])
        return answer

    def _offer(self, entries: list[str]) -> None:
        """Show what can be pressed, side by side where there is room: the last row of the frame."""
        console = self.renderer.console
        rows = list(flow(entries, console.width - 2)) if can_redraw(console) else entries
        corner = self.renderer.glyphs.bottom if self._is_framed else ""
        heads = [f"{corner:<2}", *["  "] * len(rows)]
        choices_text = (f"{head}{row}" for head, row in zip(heads, rows, strict=False))
        self.renderer.lines(("", in_frame(row) if self._is_framed else row) for row in choices_text)
        self._is_framed = False

    async def line(self, question: str, default: str = "") -> str | None:
        """Ask for a line of text and return it, or None if the person cancels."""
        self._open = LinePrompt(question, key_bindings=_line_keys())
        quick_escape(self._open.app)
        try:
            asking = self._open.ask(default, handle_sigint=not self.is_during_run)
            return clean(await asking)
        except EOFError:
            return None
        finally:
            self._open = None


def _is_consent(text: str) -> bool:
    """Return whether a line of text only says yes, in one of the languages that people use here."""
    return " ".join(re.findall(r"\w+", text.casefold())) in _CONSENT


def _ask_for_key(keys: Iterable[str]) -> str:
    return f"  A word decides nothing. Press one of the keys {'/'.join(keys)}."


def _line_keys() -> KeyBindings:
    """Return key bindings that treat Escape and Ctrl-C as "cancel"."""
    keys = KeyBindings()
    for key in ("escape", "c-c", "<sigint>"):
        keys.add(key)(exits(exception=EOFError))
    keys.add("c-z")(stop_at_prompt)
    return keys
