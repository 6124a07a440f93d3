"""Tool servers as programs and people use them, whichever extension connects to them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...actions.ports import ToolOutcome
from ...actions.tools.registry import SERVER_PREFIX
from ...state.conversation.messages import Document, Image, Text


@dataclass(frozen=True, slots=True)
class Elicitation:
    """A question of a server to the person."""

    server: str
    message: str
    """Untrusted, without control characters."""
    schema: Mapping[str, Any]
    """Of the answer: an object of plain values; empty where an address is to be visited."""
    url: str = ""


OnElicitation = Callable[[Elicitation], Awaitable[Mapping[str, Any] | None]]
"""Answers a question of a server: the fields of its schema; None declines."""


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool of a server, under the server's own name for it."""

    server: str
    name: str
    description: str
    parameters: Mapping[str, Any] = field(repr=False)
    """The JSON schema of its arguments."""


@dataclass(frozen=True, slots=True)
class PromptArgument:
    name: str
    description: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class ServerPrompt:
    """A text that a server makes for a person to send."""

    server: str
    name: str
    """As its server calls it."""
    description: str
    arguments: tuple[PromptArgument, ...]

    @property
    def command(self) -> str:
        return f"/{SERVER_PREFIX}{self.server}__{self.name}"


@dataclass(frozen=True, slots=True)
class ServerResource:
    """Something that a server has to read."""

    server: str
    uri: str
    """The template of a URI, if `is_template`."""
    name: str
    description: str
    media_type: str
    """Empty: not known."""
    is_template: bool = False


class ToolServers(Protocol):
    """The tool servers of a session, for programs; each method raises `UsageError` for a problem of a server.

    What a program asks of a server itself is neither judged nor in the journal.
    """

    async def list_tools(self) -> Sequence[ServerTool]:
        """Return the tools of all servers."""
        ...

    async def call_tool(
        self, server: str, tool: str, arguments: Mapping[str, Any] | None = None
    ) -> ToolOutcome:
        """Call a tool and return its outcome; an error of the tool is an outcome, too."""
        ...

    async def list_prompts(self) -> Sequence[ServerPrompt]:
        """Return the prompts of all servers that answer."""
        ...

    async def get_prompt(self, server: str, prompt: str, arguments: Mapping[str, str] | None = None) -> str:
        """Return the text of a prompt, which can be sent as a message."""
        ...

    async def list_resources(self, server: str) -> Sequence[ServerResource]:
        """Return the resources of a server and its templates of resources."""
        ...

    async def read_resource(self, server: str, uri: str) -> Sequence[Text | Image | Document]:
        """Return the contents of a resource."""
        ...
