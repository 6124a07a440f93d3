"""`sandbur doctor`: checks the installation and says what is missing."""

from ui.arguments import Arguments


async def examine(arguments: Arguments) -> int:
    return 0
