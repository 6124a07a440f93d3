"""The options of one run: checks them, and merges those of a continued run with new ones."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...actions.ports import Masker, Model, NeedsInputs, Ports, implements
from ...state.application import ApplicationState, RunOptions, VibeStep
from ...state.conversation.messages import encodable
from ...state.errors import UsageError

GENERAL_CHOICES = ("", "auto", "required", "none")

ConnectModel = Callable[[str, Model | None], Model]
"""Returns the model of this name, or the given object, wrapped for a session; raises `SandburError`."""


def require_deps(ports: Ports) -> None:
    """Raise `UsageError` if a tool needs the dependencies of a program and the run has none."""
    if ports.inputs.deps is not None:
        return
    for name, tool in ports.toolbox.items():
        if implements(tool, NeedsInputs) and (needed := tool.missing_deps(ports.inputs)):
            raise UsageError(
                f"The tool {name} needs deps of the type {needed}, and this run has none.",
                "Pass them: run(..., deps=...). They are never stored, so a resumed run needs them again.",
            )


def require_tool(choice: str, ports: Ports) -> None:
    """Raise `UsageError` for a tool choice that names no tool of the session."""
    if choice not in GENERAL_CHOICES and choice not in ports.toolbox:
        known = ", ".join(ports.toolbox) or "it has none"
        raise UsageError(
            f"tool_choice={choice!r} names no tool of this session.",
            f'Use "auto", "required", "none" or the name of a tool: {known}.',
        )


def mask_instructions(options: RunOptions, masker: Masker) -> RunOptions:
    """Return the options with the secrets in their instructions masked."""
    if not options.instructions:
        return options
    return options.model_copy(update={"instructions": masker.text(encodable(options.instructions))})


def merge_options(begun: RunOptions, given: RunOptions) -> RunOptions:
    """Return the options of a run that continues: those it began with, changed by those given now.

    The instructions of the run stay, because the history already contains them.
    """
    changes = {name: getattr(given, name) for name in given.model_fields_set if name != "instructions"}
    if {"output", "is_text"} & changes.keys():
        changes = {"output": given.output, "is_text": given.is_text, **changes}
    return begun.model_copy(update=changes) if changes else begun


def keep_task(begun: RunOptions, given: RunOptions) -> RunOptions:
    """Return the options of a new run as part of the task that the last one worked on.

    A person's message to a sub-agent belongs to its task: the parent gets the answer to it.
    """
    kept = {"task": begun.task, "used_before": begun.used_before, "step": begun.step}
    return given.model_copy(update=kept)


def dump_changes(state: ApplicationState, unrecorded: Iterable[str]) -> dict[str, Any]:
    """Return these fields of a state as JSON values, in the form that the start of a run records.

    Options that are no longer set are recorded as empty. Otherwise a replay would keep the earlier values.
    """
    names = set(unrecorded)
    reset: dict[str, Any] = {"run_options": {}} if "run_options" in names else {}
    if "vibe_plan" in names:
        # Outside of an action only steps without messages change. The others are named by their ids.
        reset[PLAN_STEPS] = [
            step.model_dump(mode="json", exclude={"chat_history"})
            if step.status in ("pending", "skipped")
            else step.step_id
            for step in state.vibe_plan
        ]
    return {**reset, **state.model_dump(mode="json", include=names - {"vibe_plan"})}


def apply_changes(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a state with the changes that `dump_changes` returned."""
    fields = {name: value for name, value in changes.items() if name != PLAN_STEPS}
    state = ApplicationState.model_validate(fields)
    applied = {**values, **{name: getattr(state, name) for name in fields}}
    if PLAN_STEPS in changes:
        known = {step.step_id: step for step in values["vibe_plan"]}
        applied["vibe_plan"] = tuple(
            known[one] if isinstance(one, str) else VibeStep.model_validate(one)
            for one in changes[PLAN_STEPS]
        )
    return applied


PLAN_STEPS = "plan_steps"
"""The key of the steps of the plan: whole steps, and the ids of steps with messages."""
