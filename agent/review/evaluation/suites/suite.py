"""A suite: the tasks that contenders solve."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from .....state.errors import UsageError, WrongType
from .....state.store.store import Store
from ....config.load import load_settings
from .injection import list_injections
from .memory import list_memory_tasks
from .recorded import CompareOutcomes, find_sessions, read_tasks
from .task import Task
from .task_folder import find_task_folders, read_task_folder
from .tool_choice import list_tool_choices

_SHIPPED_FOLDERS: Mapping[str, Path] = {"smoke": Path(__file__).with_name("smoke")}
_SHIPPED: Mapping[str, Callable[[str], Sequence[Task]]] = {
    "tool-choice": list_tool_choices,
    "injection": list_injections,
    "memory": list_memory_tasks,
}
"""Name of a suite -> what returns the tasks of a part of it, or of the whole for an empty text."""
_SHIPPED_NAMES = (*_SHIPPED_FOLDERS, *_SHIPPED)
_MOST_NAME_CHARS = 100


class Suite:
    """The tasks of an evaluation, each with a name of its own.

    Args:
        tasks: The tasks. One without a name gets its number: `task-1`.
        name: What reports call the suite.
    """

    def __init__(self, tasks: Sequence[Task], name: str = "suite") -> None:
        for one in tasks:
            if not isinstance(one, Task):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise WrongType(f"Suite takes a list of sandbur.Task, not a {type(one).__name__}.")
        self.tasks = tuple(
            task if task.name else task.rename(f"task-{number}") for number, task in enumerate(tasks, 1)
        )
        self.name = name
        if not self.tasks:
            raise UsageError("The suite has no tasks.", 'Write Suite([Task("...", check=...)]).')
        names = [task.name for task in self.tasks]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"The suite has two tasks with the name {name!r}.", "Rename one of them.")
            if len(name) > _MOST_NAME_CHARS or not name.isprintable():
                raise UsageError(f"{name[:_MOST_NAME_CHARS]!r} cannot be the name of a task.")

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    @classmethod
    def from_folder(cls, folder: str | Path) -> Self:
        """Return the suite in a folder: each folder with a `task.toml` in or below it is a task in the format
        of harbor.

        Raises `UsageError` with the path and the field of what is wrong.
        """
        root = Path(folder).expanduser().absolute()
        root = root.resolve() if ".." in root.parts else root
        found = find_task_folders(root)
        tasks = [
            read_task_folder(one, one.relative_to(root).as_posix() if one != root else one.name, root)
            for one in found
        ]
        return cls(tasks, root.name)

    @classmethod
    def from_sessions(
        cls,
        sessions: Sequence[str],
        *,
        check: CompareOutcomes | None = None,
        workspace: str | Path | None = None,
        store: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Return a suite from past sessions: each task is the first message of a person in one of them.

        `sessions` are ids or tags. `check` compares the recorded outcome with the new one; without it, the
        files that the recorded turn changed, or else its calls with effects, have to be the same. `workspace`
        is a folder with the files that the turn did not change. `store` is as for `Agent`. Raises
        `UsageError` if no session can be a task.
        """
        settings = load_settings(
            {} if store is None else {"store": store}, os.environ if env is None else env
        )
        opened = Store.open(settings.store, settings.tenant, None, settings.durability, settings.home)
        try:
            return cls.of_sessions(opened, sessions, check, workspace)
        finally:
            opened.close()

    @classmethod
    def of_sessions(
        cls,
        store: Store,
        sessions: Sequence[str],
        check: CompareOutcomes | None = None,
        workspace: str | Path | None = None,
    ) -> Self:
        """Return the suite of past sessions in an open store, as `from_sessions` does."""
        folder = None if workspace is None else Path(workspace).expanduser().absolute()
        return cls(read_tasks(store, find_sessions(store, sessions), check, folder), "sessions")

    @classmethod
    def shipped(cls, name: str) -> Self:
        """Return a suite of this package, such as `smoke`, or a part of one, such as
        `tool-choice/live_multiple`; raises `UsageError` for an unknown name."""
        first, _, part = name.partition("/")
        if first in _SHIPPED:
            return cls(_SHIPPED[first](part), name)
        if name in _SHIPPED_FOLDERS:
            return cls.from_folder(_SHIPPED_FOLDERS[name])
        raise UsageError(f"There is no suite {name!r}.", f"Shipped: {', '.join(_SHIPPED_NAMES)}.")

    @classmethod
    def find(cls, word: str) -> Self:
        """Return the suite that a person names: a folder, or the name of a shipped suite or of a part."""
        is_shipped = word.partition("/")[0] in _SHIPPED or word in _SHIPPED_FOLDERS
        return (
            cls.shipped(word)
            if is_shipped and not Path(word).expanduser().is_dir()
            else cls.from_folder(word)
        )

    def select(self, names: Sequence[str]) -> Self:
        """Return a suite with the tasks of these names, or below a folder of such a name."""
        chosen = [
            task
            for task in self.tasks
            if any(task.name == one or task.name.startswith(f"{one}/") for one in names)
        ]
        if not chosen:
            known = ", ".join(task.name for task in self.tasks[:8])
            raise UsageError(f"The suite has no task {', '.join(names)}.", f"It has {known}.")
        return type(self)(chosen, self.name)
