"""The interfaces of tools that can do more than run: a tool implements those that fit, see `implements`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from ...state.calls import FileChange, FingerprintedFile
from ...state.conversation.approved_plan import ApprovedPlan
from ..workspace.backends.backend import KeptFiles
from .run_inputs import RunInputs
from .tool import Prepared, Recovered, Tool, Toolbox, ToolContext, ToolOutcome


@runtime_checkable
class Searching(Protocol):
    """A tool that searches folders."""

    def reaches_hidden(self, arguments: Any) -> bool:
        """Return whether a call also reads names that begin with a dot."""
        ...


@runtime_checkable
class HoldsSecrets(Protocol):
    """A tool that sends secrets which the model must not read."""

    def secrets(self) -> Mapping[str, str]:
        """Return the secrets by name. They are masked in all texts."""
        ...


Verified = Literal["done", "not_done", "unknown"]


@runtime_checkable
class Verifiable(Protocol):
    """A tool whose effect can be checked after a crash."""

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared | ToolOutcome:
        """Return the changes that `run` will make, without making them. Return a `ToolOutcome` if the call
        cannot run.
        """
        ...

    async def verify(self, changes: Sequence[FileChange]) -> Verified:
        """Return whether the prepared changes happened. This also removes temporary files of a dead
        process.
        """
        ...


@runtime_checkable
class Recoverable(Protocol):
    """A tool that can find the outcome of a started call after a crash."""

    async def recover(self, arguments: Any, context: ToolContext) -> Recovered:
        """End the remaining processes of the call and return what is known about it. The call does not run
        again.
        """
        ...


@runtime_checkable
class NeedsInputs(Protocol):
    """A tool that may need the dependencies that a program passes."""

    def missing_deps(self, inputs: RunInputs) -> str:
        """Return the type of the dependencies that the tool needs and the run lacks, or an empty text."""
        ...


@runtime_checkable
class AsksAboutSome(Protocol):
    """A tool that declares to need no question, except for some of its calls."""

    def why_ask(self, arguments: Any) -> str:
        """Return why a call needs a decision if no rule matches, as a clause; empty if it needs none."""
        ...


@runtime_checkable
class ProposesPlans(Protocol):
    """A tool whose calls propose a plan for approval."""

    def describe_changes(self, arguments: Any, earlier: ApprovedPlan) -> str:
        """Return how the proposed plan differs from the one that was approved before, one change a line."""
        ...


@runtime_checkable
class ShowsChanges(Protocol):
    """A tool that writes files whose new contents are not in the arguments of a call."""

    def show_changes(self, arguments: Any) -> str:
        """Return the difference of the files that a call would write, as text of limited size."""
        ...


@runtime_checkable
class Fingerprinted(Protocol):
    """A tool that says itself what the approval of a call depends on, in place of the files it names.

    It compares these files itself before it changes them.
    """

    def take_fingerprints(self, arguments: Any) -> Sequence[FingerprintedFile]:
        """Return what an approval covers. If any of it changes, the approval is void."""
        ...


@runtime_checkable
class LeavesProcesses(Protocol):
    """A tool that can find the running processes of its calls."""

    def still_running(self, context: ToolContext) -> Sequence[str]:
        """Return the running processes of a call as `pid name`, without changing them."""
        ...


@runtime_checkable
class WorksOnFiles(Protocol):
    """A tool that works on a file system, whose files need not be on the disk."""

    def is_virtual(self, arguments: Any) -> bool:
        """Return whether the subject of a call is a virtual path, which is not on the disk."""
        ...

    def has_session_files(self) -> bool:
        """Return whether the tool works on files that belong to a session."""
        ...

    def of_session(self, kept: KeptFiles) -> Tool:
        """Return the tool for the files of a session."""
        ...


@runtime_checkable
class CallsTools(Protocol):
    """A tool whose calls make nested calls."""

    def list_brought(self) -> Sequence[Tool]:
        """Return the further tools that an agent with this tool gets."""
        ...

    def hide(self, names: Collection[str]) -> Tool:
        """Return this tool with some of its further tools, those in `names`, hidden from the model."""
        ...

    def list_hidden(self) -> Collection[str]:
        """Return the names of the tools that only nested calls of this tool can use."""
        ...

    def with_tools(self, tools: Toolbox) -> Tool:
        """Return this tool for a session that has these tools."""
        ...


class FilesRun(NamedTuple):
    """The files that a call runs as programs."""

    paths: Sequence[str]
    is_complete: bool
    """Whether all files are listed. It is False if there are too many."""


@runtime_checkable
class RunsFiles(Protocol):
    """A tool whose calls may run files, so that the contents of files decide what a call does."""

    def files_run(self, arguments: Any, cwd: Path) -> FilesRun:
        """Return the files that the call runs."""
        ...
