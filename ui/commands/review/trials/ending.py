"""The end of a chat in a trial: a person decides with one key what becomes of the changes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .....agent.config.settings import Settings
from .....agent.review.trials.trial import Trial
from .....state.errors import SandburError
from ....chat.decisions.questions import Questions
from ....chat.input.composer import Leave
from ....chat.input.wait_for_input import at_prompt
from ....cli.open_session import appear
from ....terminal.render import Renderer
from ....terminal.terminal import make_console, say
from ....terminal.text.sanitize import plain
from .command import TryCommand
from .report import AT_END, CHOICES, report_commands

if TYPE_CHECKING:
    from ....cli.grammar import Command

_ACTIONS = {"a": "apply", "d": "diff", "x": "drop"}


async def decide_changes(command: Command, settings: Settings, trial: Trial) -> None:
    """Ask what becomes of the changes of a trial until they are applied, dropped or kept."""
    appear(settings)
    overrides = {**command.overrides, "store": settings.store, "add_dirs": ()}
    chosen = TryCommand(name="try", trial=trial.id, yes=True, overrides=overrides)
    while action := _ACTIONS.get(await _ask()):
        code = await _carry_out(chosen.but(prompt=action))
        if action != "diff":
            if code:
                report_commands(trial)
            return
    report_commands(trial)


async def _ask() -> str:
    """Return the key that the person pressed, or an empty text; ends the process after a signal."""
    questions = Questions(Renderer(make_console(sys.stdout), answers=True))
    try:
        return await at_prompt(questions.key(AT_END, CHOICES), questions.leave)
    except Leave as leaving:
        raise SystemExit(leaving.exit_code) from None


async def _carry_out(command: TryCommand) -> int:
    try:
        return await command.run()
    except SandburError as error:
        say(f"sandbur: {plain(str(error))}")
        return error.exit_code
