"""Slash commands written as Markdown: a message template with placeholders for the arguments."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ...state.errors import ConfigError, UsageError
from ...state.lazy_dataclass import dataclass
from .markdown_files import TextFolder, list_files, split_front_matter

_NAME = re.compile(r"[A-Za-z][\w-]*(?::[\w-]+)*")
_PLACE = re.compile(r"\$(ARGUMENTS|[1-9]\d?)")
_RUNS = re.compile(r"(?<![\w`])!`([^`\n]+)`")
_HAS_RUN = "`{command}` (this command ran just now; its output is above)"
_MOST_COMMANDS = 200


@dataclass(frozen=True, slots=True)
class PromptCommand:
    name: str
    """The file's name without its suffix, after the names of its folders, such as `git:review`."""
    description: str
    argument_hint: str
    model: str
    """The model that the command asks for; empty for the session's model."""
    allowed_tools: str
    """The tools that the file names. The list is only displayed; the policy decides about each call."""
    body: str
    file: Path

    def runs(self, words: str) -> tuple[str, ...]:
        """Return the shell commands that have to run, through the gate, before the message is sent."""
        return tuple(_fill_arguments(found[1], words) for found in _RUNS.finditer(self.body))

    def message(self, words: str, has_run: bool = False) -> str:
        """Return the message to send.

        Raises `UsageError` if the file has shell commands and `has_run` is false.
        """
        if not has_run and (first := _RUNS.search(self.body)):
            raise UsageError(
                f"/{self.name} runs `{first[0][:80]}` before its message, and only the chat can do that.",
                f"Send it in a chat, or remove that command from {self.file} and let the agent run it.",
            )
        parts: list[str] = []
        end = 0
        for found in _RUNS.finditer(self.body):
            parts += [
                _fill_arguments(self.body[end : found.start()], words),
                _HAS_RUN.format(command=_fill_arguments(found[1], words)),
            ]
            end = found.end()
        # The arguments are not part of the file, so no command in them runs.
        text = "".join((*parts, _fill_arguments(self.body[end:], words)))
        return text if not words or _PLACE.search(self.body) else f"{text}\n\n{words}"


def _fill_arguments(text: str, words: str) -> str:
    """Replace the placeholders in a part of the file by the arguments."""
    parts = _parts(words)

    def put(match: re.Match[str]) -> str:
        if match[1] == "ARGUMENTS":
            return words
        place = int(match[1]) - 1
        return parts[place] if place < len(parts) else ""

    return _PLACE.sub(put, text)


def _parts(words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError:
        return words.split()


class FoundCommands(NamedTuple):
    commands: Mapping[str, PromptCommand]
    untrusted: tuple[TextFolder, ...]
    notices: tuple[str, ...]


def find_commands(cwd: Path, env: Mapping[str, str]) -> FoundCommands:
    """Return the commands that are active in a folder; of two with the same name, the nearer one counts."""
    notices: list[str] = []
    found, untrusted = list_files("command", "*.md", cwd, env, _MOST_COMMANDS, _read, notices)
    return FoundCommands({one.name: one for one in found.values()}, untrusted, tuple(notices))


def _read(folder: TextFolder, file: str) -> tuple[str, PromptCommand]:
    name = file.removesuffix(".md").replace("/", ":")
    if not _NAME.fullmatch(name):
        raise ConfigError(f"The file name {folder.path / file} gives no valid command name: {name!r}.")
    read = split_front_matter(folder.text(file))
    if not read.body:
        raise ConfigError(f"{folder.path / file} is empty.", "Write the message in it, or remove it.")
    first = next(line for line in read.body.splitlines() if line.strip()).lstrip("# ")
    command = PromptCommand(
        name=name,
        description=read.line("description", 200) or first[:100],
        argument_hint=read.line("argument-hint", 60),
        model=read.line("model", 200),
        allowed_tools=read.line("allowed-tools", 500),
        body=read.body,
        file=folder.path / file,
    )
    return name.lower(), command
