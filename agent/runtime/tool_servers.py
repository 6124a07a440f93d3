"""The interface to tool servers for programs and people, independent of the extension that connects to
them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from ...actions.ports import ToolOutcome
from ...actions.tools.registry import SERVER_PREFIX
from ...state.conversation.messages import Document, Image, Text
from ...state.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Elicitation:
    """A question of a tool server to the person."""

    server: str
    message: str
    """The text of the question: untrusted, without control characters."""
    schema: Mapping[str, Any]
    """The JSON schema of the answer, an object of plain values. Empty: the person has to visit an address."""
    url: str = ""


OnElicitation = Callable[[Elicitation], Awaitable[Mapping[str, Any] | None]]
"""Answers a question of a tool server with the fields of its schema, or declines with None."""


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
    """A text that a server generates for a person to send."""

    server: str
    name: str
    """The name of the prompt at its server."""
    description: str
    arguments: tuple[PromptArgument, ...]

    @property
    def command(self) -> str:
        return f"/{SERVER_PREFIX}{self.server}__{self.name}"


@dataclass(frozen=True, slots=True)
class ServerResource:
    """A resource that a server offers to read, or a template for the addresses of resources."""

    server: str
    uri: str
    """The URI, or a template of URIs if `is_template` is true."""
    name: str
    description: str
    media_type: str
    """The media type; empty if unknown."""
    is_template: bool = False


class ToolServers(Protocol):
    """The tool servers of a session, for programs. Each method raises `UsageError` if a server fails.

    The gate does not judge the calls that a program makes itself, and the journal does not record them.
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
        """Return the resources of a server, and its resource templates."""
        ...

    async def read_resource(self, server: str, uri: str) -> Sequence[Text | Image | Document]:
        """Return the contents of a resource."""
        ...
