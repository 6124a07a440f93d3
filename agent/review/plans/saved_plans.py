"""Plans that are saved as Markdown files: found by name, filled with values, written, and begun again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ....actions.workspace.content_cache import write_whole
from ....state.application import ApplicationState
from ....state.conversation.approved_plan import ApprovedPlan
from ....state.conversation.plan_notebook import NotedStep, PastPlan, PlanChange
from ....state.errors import ConfigError, UsageError
from ...config.paths import config_home, project_folders, repository_root
from ...extensions.markdown_files import TextFolder, list_files
from .permissions import Permissions
from .plan_text import MOST_CHARS, Compilers, UnreadablePlan, parse_plan

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PLACE = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_MOST_PLANS = 200
_MOST_VALUE_CHARS = 500


class SavedPlan(NamedTuple):
    name: str
    path: Path
    text: str
    """The Markdown of the file; places such as `{version}` are not filled."""
    is_of_project: bool

    @property
    def places(self) -> tuple[str, ...]:
        """Return the names of the values that the plan needs, in their order."""
        return tuple(dict.fromkeys(_PLACE.findall(self.text)))


class FoundPlans(NamedTuple):
    plans: Mapping[str, SavedPlan]
    """Name -> plan; of two with one name, the one of the nearer folder."""
    notices: tuple[str, ...]
    """Sentences about folders that are not trusted, and about files that are left out."""


def find_plans(cwd: Path, env: Mapping[str, str]) -> FoundPlans:
    """Return the saved plans of a project, if a person trusts its folder, and those of the person."""
    notices: list[str] = []
    found, _ = list_files("plan", "*.md", cwd, env, _MOST_PLANS, _read, notices)
    return FoundPlans(found, tuple(notices))


def _read(folder: TextFolder, file: str) -> tuple[str, SavedPlan] | None:
    name = file.removesuffix(".md")
    if "/" in file:
        return None
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"{folder.path / file} cannot be used: a name consists of a-z, 0-9, - and _.")
    text = folder.text(file)
    if len(text) > MOST_CHARS:
        raise ConfigError(f"{folder.path / file} has over {MOST_CHARS:,} characters.")
    return name, SavedPlan(name, folder.path / file, text, folder.is_project)


def check_name(name: str) -> str:
    """Return the name of a plan; raises `UsageError` for one that cannot name a file."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"`{name[:60]}` cannot name a plan: a name consists of a-z, 0-9, - and _.",
            "For example: release-notes",
        )
    return name


def split_values(words: Sequence[str]) -> tuple[dict[str, str], str]:
    """Return the values of the leading words of the form `key=value`, and the other words as one text."""
    values: dict[str, str] = {}
    rest = list(words)
    while rest and (found := re.fullmatch(r"([a-z][a-z0-9_]*)=(.*)", rest[0], re.DOTALL)):
        values[found[1]] = found[2]
        rest.pop(0)
    return values, " ".join(rest)


def read_plan(
    saved: SavedPlan, values: Mapping[str, str], cwd: Path, add_dirs: Sequence[Path]
) -> ApprovedPlan:
    """Return the plan of a file with its values, and what it may do in this workspace.

    Raises `UsageError` with file and line for a text that is no plan, and for values that do not fit.
    """
    return parse_text(_fill(saved, values), Permissions(cwd, add_dirs).by_key, str(saved.path))


def parse_text(text: str, compilers: Compilers, place: str) -> ApprovedPlan:
    """Return the plan in a text. Raises `UsageError`, which names `place` and the line."""
    try:
        return parse_plan(text, compilers)
    except UnreadablePlan as problem:
        raise UsageError(f"{place}: {problem}") from None


def _fill(saved: SavedPlan, values: Mapping[str, str]) -> str:
    places = saved.places
    if missing := [name for name in places if name not in values]:
        example = " ".join(f"{name}=..." for name in missing)
        raise UsageError(f"The plan {saved.name} needs {', '.join(missing)}.", f"Add: {example}")
    for name, value in values.items():
        if name not in places:
            raise UsageError(f"The plan {saved.name} has no place {{{name}}}.", "Leave the value out.")
        if not value.isprintable() or not value.strip() or len(value) > _MOST_VALUE_CHARS:
            limit = f"It is one line of 1 to {_MOST_VALUE_CHARS} characters."
            raise UsageError(f"The value of {name} does not fit.", limit)
    return _PLACE.sub(lambda found: values[found[1]], saved.text)


def begin_saved(name: str, plan: ApprovedPlan) -> PlanChange:
    """Return the change that begins a plan. A plan with permissions or a budget binds, so that the caller
    needs a person's decision for exactly this plan.
    """
    if plan.binds:
        return PlanChange(command="begin", name=name, plan=plan)
    steps = tuple(
        NotedStep(description=step.description, expects=step.expects, after=step.after) for step in plan.steps
    )
    return PlanChange(command="begin", name=name, goal=plan.goal, expects=plan.expects, steps=steps)


def render_markdown(state: ApplicationState, past: PastPlan | None = None) -> str:
    """Return the current plan of a state, or an earlier one, in the form that `parse_plan` reads.

    Raises `UsageError` without a plan.
    """
    if past is not None and past.approved_text:
        return f"{past.approved_text}\n"
    if past is None and state.approved_plan is not None:
        return f"{state.approved_plan.text}\n"
    steps = state.vibe_plan if past is None else past.steps
    if not steps:
        raise UsageError("This session has no plan.", "A plan is made when a goal needs several steps.")
    goal, expects = state.current_goal or "", state.plan_facts.expects
    goal, expects = (goal, expects) if past is None else (past.goal, past.expects)
    lines = [f"# {_to_line(goal)}", *([f"- expects: {_to_line(expects)}"] if expects else [])]
    for number, step in enumerate(steps, 1):
        lines.append(f"## {number}. {_to_line(step.description)}")
        lines += [f"- expects: {_to_line(step.expects)}"] if step.expects else []
    return "\n".join(lines) + "\n"


def _to_line(text: str) -> str:
    """Return a text of a model as one line, so that no part of it becomes a permission in the file."""
    line = "".join(c if c.isprintable() else " " for c in text).replace("{", "(").replace("}", ")")
    return " ".join(line.split()) or "-"


def save_plan(name: str, text: str, cwd: Path, env: Mapping[str, str], is_own: bool = False) -> Path:
    """Write a plan to a file and return its path: in the project, or with `is_own` in the person's folder.

    A folder of the project that was trusted stays so with the new file. Raises `UsageError` if the file
    exists, and `ConfigError` if it cannot be written.
    """
    folder = config_home(env) / "plans" if is_own else _find_project_folder(cwd)
    path = folder / f"{check_name(name)}.md"
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists already; it was not changed.", "Choose another name, or remove it.")
    known = TextFolder(folder, not is_own)
    was_trusted = not known.files or known.is_trusted(env)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", "Check the folder.") from None
    if was_trusted and not is_own:
        TextFolder(folder, True).trust(env)
    return path


def _find_project_folder(cwd: Path) -> Path:
    """Return the nearest `.sandbur/plans` of a project, or where a new one belongs."""
    root = repository_root(cwd) or cwd
    places = [folder / ".sandbur" for folder in project_folders(cwd)]
    folder = next((place for place in places if place.is_dir()), root / ".sandbur")
    for place in (folder, folder / "plans"):
        if place.is_symlink():
            raise UsageError(f"{place} is a link; nothing is written there.", "Remove it, or use --user.")
    return folder / "plans"


def find_saved(name: str, cwd: Path, env: Mapping[str, str]) -> SavedPlan:
    """Return the saved plan of a name; raises `UsageError` if there is none."""
    found = find_plans(cwd, env)
    saved = found.plans.get(check_name(name))
    if saved is None:
        known = ", ".join(found.plans) or "none"
        raise UsageError(
            " ".join((f"There is no saved plan {name}.", *found.notices)), f"There are: {known}."
        )
    return saved
