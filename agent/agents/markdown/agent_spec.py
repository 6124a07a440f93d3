"""The description of an agent that a session can start as a sub-agent."""

from pathlib import Path
from typing import Literal

from ....state.application import ExecutionMode
from ....state.lazy_dataclass import dataclass
from ....state.session import Effort

Isolation = Literal["", "copy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """What an agent file describes. A session that starts the agent only ever narrows what it has itself."""

    name: str
    """The name, which consists of `a-z`, `0-9` and `-`."""
    description: str
    """When to use it; the model of the parent reads this."""
    instructions: str
    """Its system prompt: the Markdown text below the front matter."""
    model: str = ""
    """`PROVIDER/MODEL` or an alias; empty: that of the parent."""
    tools: tuple[str, ...] | None = None
    """Names of tools, globs and groups as in `--tools`; None: all tools of the parent; empty: none.

    The tool that starts agents is in no list: `may_start` decides about it.
    """
    disallowed_tools: tuple[str, ...] = ()
    may_start: tuple[str, ...] | None = None
    """Names of the agents that it may start itself; None: all; empty: none."""
    mode: ExecutionMode | None = None
    """None: that of the parent. A mode that is freer than the parent's has no effect."""
    max_turns: int | None = None
    """How many replies of the model a run may take; None: the limit of the parent."""
    skills: tuple[str, ...] = ()
    """The skills whose text is part of its first message."""
    mcp_servers: tuple[str, ...] | None = None
    """Names of configured tool servers; None: all of the parent."""
    effort: Effort | None = None
    """None: that of the parent."""
    isolation: Isolation = ""
    """`copy`: it works in a copy of the folder; empty: in the folder of the parent."""
    runs_in_background: bool = False
    """Not used yet."""
    memory: str = ""
    """The scope of its memory: `user`, `project` or `local`. Not used yet."""
    color: str = ""
    """For displays; empty: none."""
    initial_prompt: str = ""
    """The first message of a session that a person starts with this agent."""
    source: Path | None = None
    """The file; None: a program declares the agent."""
    is_of_project: bool = False
    """Whether the file belongs to a project, not to the person."""
    is_trusted: bool = True
    """An agent that is not trusted is listed and never started."""

    @property
    def folder(self) -> Path | None:
        """The folder of the file, which a person trusts as a whole."""
        return None if self.source is None else self.source.parent
