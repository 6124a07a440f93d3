"""The suite `tool-choice`: questions of BFCL v4 with their functions, and the calls that are right."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from .....actions.tools.functions.function_tool import FunctionTool
from .....actions.tools.functions.results import TaskComplete
from .....state.errors import UsageError
from .....state.lazy_dataclass import dataclass
from .call_match import NamedCall, choose_arguments, find_difference
from .task import Solution, Task

_PACKAGE = "bfcl_eval"
_FILES: Mapping[str, str] = {
    "simple": "simple_python",
    "multiple": "multiple",
    "parallel": "parallel",
    "parallel_multiple": "parallel_multiple",
    "live_simple": "live_simple",
    "live_multiple": "live_multiple",
    "live_parallel": "live_parallel",
    "live_parallel_multiple": "live_parallel_multiple",
    "irrelevance": "irrelevance",
}
"""Category -> its name in the files of the package."""
_USUAL = ("simple", "multiple", "live_multiple", "irrelevance")
_USUAL_COUNT = 25
"""How many tasks of each usual category the whole suite has."""
_NO_CALL = "No function fits."


def list_tool_choices(category: str) -> list[Task]:
    """Return all questions of a category; empty: 25 of each of four categories, always the same.

    Raises `UsageError` for an unknown category, and if the data is not installed.
    """
    if category:
        if category not in _FILES:
            raise UsageError(
                f"The suite tool-choice has no category {category[:60]!r}.",
                f"Categories: {', '.join(_FILES)}.",
            )
        return list(_read_category(category))
    return [task for one in _USUAL for task in _read_category(one, _USUAL_COUNT)]


def _read_category(category: str, count: int = 0) -> Iterator[Task]:
    """Yield the questions of a category; with `count`, so many at equal distances.

    Questions that the right calls of the data do not answer are left out.
    """
    file = _find_data() / f"BFCL_v4_{_FILES[category]}.json"
    right = _read_lines(file.parent / "possible_answer" / file.name)
    answers = {line["id"]: line["ground_truth"] for line in right}
    found = [_Question.of(line, answers.get(line["id"], ())) for line in _read_lines(file)]
    usable = [one for one in found if one.is_answerable]
    for one in usable[:: max(len(usable) // count, 1)][:count] if count else usable:
        yield one.make_task(category)


@dataclass(frozen=True, slots=True)
class _Question:
    """A question, its functions, and the right calls by the names of the data."""

    name: str
    text: str
    functions: tuple[Mapping[str, Any], ...]
    right: tuple[NamedCall, ...]

    @classmethod
    def of(cls, line: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> _Question:
        text = "\n\n".join(message["content"] for message in line["question"][0])
        right = tuple((name, allowed) for call in answers for name, allowed in call.items())
        return cls(line["id"], text, tuple(line["function"]), right)

    @property
    def schemas(self) -> dict[str, Mapping[str, Any]]:
        return {one["name"]: one["parameters"] for one in self.functions}

    @property
    def calls(self) -> list[NamedCall]:
        """The calls that the data names first."""
        schemas = self.schemas
        return [(name, choose_arguments(allowed, schemas[name])) for name, allowed in self.right]

    @property
    def is_answerable(self) -> bool:
        return not find_difference(self.calls, self.right, self.schemas)

    def make_task(self, category: str) -> Task:
        tools = {one["name"]: _make_tool(one) for one in self.functions}
        names = {name: tool.spec.name for name, tool in tools.items()}
        schemas = {names[name]: schema for name, schema in self.schemas.items()}
        right = tuple((names[name], allowed) for name, allowed in self.right)
        calls = [{"tool": names[name], "arguments": arguments} for name, arguments in self.calls]
        return Task(
            self.text,
            name=f"{category}/{self.name}",
            tools=tuple(tools.values()),
            check=FirstCalls(right, schemas),
            script=[{"calls": calls}, "Done."] if calls else [_NO_CALL],
        )


def _find_data() -> Path:
    """Return the folder of the data; raises `UsageError` if the package is not installed."""
    found = importlib.util.find_spec(_PACKAGE)
    places = [] if found is None else list(found.submodule_search_locations or ())
    for place in places:
        if (folder := Path(place, "data")).is_dir():
            return folder
    raise UsageError(
        "The suite tool-choice needs the data of BFCL, which is not installed.",
        "Install it beside Sandbur: pip install --no-deps bfcl-eval",
    )


def _read_lines(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a file; none if there is no such file: questions without a right call have no
    answers."""
    if not file.is_file():
        return []
    try:
        return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}.", "Install bfcl-eval again.") from None


def _make_tool(function: Mapping[str, Any]) -> FunctionTool[..., Any]:
    answer: Callable[..., Any] = _acknowledge
    return FunctionTool.from_schema(
        function["name"],
        function["parameters"],
        answer,
        description=function.get("description", "") or function["name"],
        effect="read",
    )


def _acknowledge(every_argument: dict[str, Any]) -> TaskComplete:
    """Accept a call. The run ends, because only its first calls count."""
    return TaskComplete("The call is recorded.")


@dataclass(frozen=True, slots=True)
class FirstCalls:
    """Checks the calls of the first reply with calls."""

    right: tuple[NamedCall, ...]
    """The right calls. Without any, no call is right."""
    schemas: Mapping[str, Mapping[str, Any]]

    def __call__(self, solution: Solution) -> None:
        first = next((message.tool_uses for message in solution.history if message.tool_uses), ())
        calls = [(one.tool, _read_arguments(one.arguments)) for one in first]
        if not self.right:
            assert not calls, f"{calls[0][0]} was called, and no function fits."
            return
        problem = find_difference(calls, self.right, self.schemas)
        assert not problem, problem


def _read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call; none if they are no JSON object."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
