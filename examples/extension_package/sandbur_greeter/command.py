"""The command `sandbur greet NAME`."""

import os

from sandbur.agent.config.load import load_settings
from sandbur.ui.cli.grammar import Command, word
from sandbur.ui.terminal.terminal import put


class GreetCommand(Command):
    who: str = word("NAME", "whom to greet")

    async def run(self) -> int:
        settings = load_settings(self.overrides, os.environ)
        put(f"{settings.of('greeting')}, {self.who}!")
        return 0
