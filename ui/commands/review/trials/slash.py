"""`/try`: runs a task in a copy of the folder, and lists, shows, applies or drops what trials changed."""

from __future__ import annotations

import asyncio
import json
import os
import termios
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from .....actions.workspace.copies.diff_text import diff_files
from .....actions.workspace.copies.difference import Difference
from .....actions.workspace.copies.namespace import launch_words
from .....actions.workspace.paths import format_count
from .....agent.review.trials.applying.plan import ApplyPlan, OnConflict, plan_apply
from .....agent.review.trials.applying.record import find_undone
from .....agent.review.trials.applying.tool import NAME
from .....agent.review.trials.outcome import find_outside_effects, read_differences
from .....agent.review.trials.trial import Trial, TrialPlace, find_trial, list_trials
from .....state.errors import UsageError
from .....state.process.installation import make_own_command
from ....chat.slash.command import DONE, SlashContext, SlashOffer, SlashResult, tell, warn
from ....terminal.drive import ctrl_c_left_alone
from ....terminal.text.diffs import Line, number_diff
from ....terminal.text.sanitize import plain
from ....terminal.text.theme import LOOK
from .applying import describe_plan
from .command import OF_CHAT
from .managing import trial_line
from .report import AT_END, CHOICES, outcome_lines

_ACTIONS = {
    "list": "list the trials",
    "diff": "show what a trial changed",
    "apply": "write the changes of a trial to the folder",
    "drop": "remove a trial with its copy",
}
_USAGE = "/try TASK, /try list, or /try diff|apply|drop [ID]"
_MOST_LISTED = 20
_MOST_LINES = 400
_END_S = 5.0
"""The most seconds that a stopped trial has to end and to restore the terminal."""
_YES = {"y": "yes", "n": "no"}
_AT_CONFLICT = {"m": "join both changes", "s": "leave these files out", "n": "apply nothing"}
_TREATMENTS: Mapping[str, OnConflict] = {"y": "refuse", "m": "merge", "s": "skip"}


async def try_task(context: SlashContext, words: str) -> SlashResult:
    """Run a task in a copy of the folder, or carry out an action with a trial."""
    if context.session.settings.trial:
        raise UsageError("This session works in a copy already.", "Use /try in a chat outside of it.")
    action, _, rest = words.partition(" ")
    if not words:
        raise UsageError("Name a task.", _USAGE)
    if action == "list" and not rest:
        await _list_all(context)
    elif action in _ACTIONS and len(rest.split()) < 2:
        trial = find_trial(_home(context), rest.strip() or None, Path(context.session.settings.cwd))
        await {"diff": _show, "apply": _apply, "drop": _drop}.get(action, _show)(context, trial)
    else:
        await _run(context, words)
    return DONE


def list_try_choices(_: SlashContext | None) -> Iterator[SlashOffer]:
    """Yield the actions as completions."""
    return (SlashOffer(name, meaning) for name, meaning in _ACTIONS.items())


def _home(context: SlashContext) -> Path:
    return context.runtime.settings.home


async def _list_all(context: SlashContext) -> None:
    store = context.runtime.store
    found = await store.database.offload(
        lambda: find_undone(store, _home(context), list_trials(_home(context)))
    )
    lines = [trial_line(_home(context), trial) for trial in found[:_MOST_LISTED]]
    if len(found) > len(lines):
        lines.append(f"and {len(found) - len(lines)} more: sandbur try list")
    tell(context, *(lines or ["There is no trial. Begin one: /try TASK"]))


async def _run(context: SlashContext, task: str) -> None:
    """Run `sandbur try` on this terminal, and ask what becomes of the changes."""
    _require_idle(context)
    trial_id = str(uuid.uuid4())
    words = _make_words(context, task)
    await context.wait(_run_on_terminal(context, words, trial_id), lambda _: False)
    place = TrialPlace(_home(context), trial_id)
    if not place.folder.is_dir():
        warn(context, "The trial did not begin; the lines above say why.")
        return
    trial = place.load()
    found = await asyncio.to_thread(read_differences, place, trial)
    store = context.runtime.store
    effects = await store.database.offload(lambda: find_outside_effects(store, trial_id))
    tell(context, *outcome_lines(trial, found, effects))
    if any(found):
        await _decide(context, trial, found)


async def _decide(context: SlashContext, trial: Trial, found: Sequence[Difference]) -> None:
    """Show the changes, and ask until they are applied, dropped or kept."""
    context.renderer.lines(_cap(_difference_lines(found), trial))
    while True:
        key = await _ask(context, AT_END, CHOICES)
        if key == "a":
            await _apply(context, trial, is_agreed=True)
        elif key == "x":
            await _remove(context, trial)
        elif key == "d":
            context.renderer.lines(_difference_lines(found))
            continue
        else:
            tell(context, f"They are kept: /try apply {trial.id[:8]} applies them.")
        return


async def _ask(context: SlashContext, question: str, choices: dict[str, str]) -> str:
    """Return the key that the person pressed, or an empty text."""
    return await context.wait(context.questions.key(question, choices), context.questions.leave)


def _require_idle(context: SlashContext) -> None:
    if context.session.next_action != "prompt":
        raise UsageError("The last turn has not ended.", "Enter goes on with it; then use /try.")


def _make_words(context: SlashContext, task: str) -> list[str]:
    """Return the command line that begins a trial with the settings of the session."""
    session, runtime = context.session, context.runtime
    settings = session.settings
    words = ["try", f"--cd={settings.cwd}", f"--model={settings.model}"]
    single: Mapping[str, object] = {
        "agent": settings.agent,
        "fallback-model": ",".join(settings.fallback_models),
        "effort": settings.effort,
        "sandbox": settings.sandbox,
        "max-budget-usd": settings.max_budget_usd,
        # Where the person did not name a store, the other process finds the same one.
        "store": runtime.flags.get("store"),
    }
    words += [f"--{name}={value}" for name, value in single.items() if value]
    if LOOK.is_plain:
        words.append("--plain")
    mode = session.state.execution_mode
    is_chosen = mode != "interactive" or "mode" in runtime.settings.sources
    if is_chosen:
        words.append(f"--mode={mode}")
    repeated: Mapping[str, Sequence[str]] = {
        "add-dir": settings.add_dirs,
        "allow": settings.allow,
        "ask": settings.ask,
        "deny": settings.deny,
        "allow-net": settings.allow_net,
    }
    words += [f"--{name}={value}" for name, values in repeated.items() for value in values]
    return [*words, "--", task]


async def _run_on_terminal(context: SlashContext, words: Sequence[str], trial_id: str) -> int:
    """Run `sandbur` with these words on this terminal; return its exit code. It ends with this process."""
    program = make_own_command(*words)
    cwd = Path(context.session.settings.cwd)
    with ctrl_c_left_alone(), _kept_terminal():
        process = await asyncio.create_subprocess_exec(
            *launch_words("", (), cwd, program, ends_with=os.getpid()),
            env={**context.runtime.env, OF_CHAT: trial_id},
        )
        try:
            return await process.wait()
        except asyncio.CancelledError:
            with suppress(ProcessLookupError, TimeoutError):
                process.terminate()
                async with asyncio.timeout(_END_S):
                    await process.wait()
            raise


@contextmanager
def _kept_terminal() -> Generator[None]:
    """Restore the modes of the terminal at the end, because a killed program leaves its own."""
    try:
        modes = termios.tcgetattr(0)
    except (termios.error, OSError):
        yield
        return
    try:
        yield
    finally:
        with suppress(termios.error, OSError):
            termios.tcsetattr(0, termios.TCSADRAIN, modes)


async def _show(context: SlashContext, trial: Trial) -> None:
    found = await asyncio.to_thread(read_differences, TrialPlace(_home(context), trial.id), trial)
    if any(one.files for one in found):
        context.renderer.lines(_cap(_difference_lines(found), trial))
    else:
        tell(context, f"Trial {trial.id} changed no files.")


def _difference_lines(found: Sequence[Difference]) -> Iterator[Line]:
    for difference in found:
        for change in diff_files(difference):
            yield from number_diff(plain(change.text))


def _cap(lines: Iterator[Line], trial: Trial) -> Iterator[Line]:
    every = list(lines)
    yield from every[:_MOST_LINES]
    if len(every) > _MOST_LINES:
        yield "dim", f"({format_count(len(every) - _MOST_LINES, 'line')} more: sandbur try diff {trial.id})"


async def _drop(context: SlashContext, trial: Trial) -> None:
    if await _ask(context, f"Remove trial {trial.id} with all of its changes?", _YES) == "y":
        await _remove(context, trial)


async def _remove(context: SlashContext, trial: Trial) -> None:
    try:
        await asyncio.to_thread(TrialPlace(_home(context), trial.id).remove)
    except OSError as error:
        raise UsageError(
            f"Not all of trial {trial.id} can be removed: {error.strerror}.", "Use /try drop again."
        ) from None
    tell(context, f"Trial {trial.id} is removed.")


async def _apply(context: SlashContext, trial: Trial, is_agreed: bool = False) -> None:
    """Apply the changes by a call of this session; `/undo` takes them back.

    A person is asked first. With `is_agreed`, only about what an agreement does not cover.
    """
    _require_idle(context)
    _require_same_folders(context, trial)
    if NAME not in context.session.ports.toolbox:
        # The session was opened before there were trials.
        context.enter(await context.runtime.reopen(context.session))
    place = TrialPlace(_home(context), trial.id)
    holds_secret = context.session.ports.masker.holds_secret

    def plan() -> tuple[list[Difference], ApplyPlan]:
        found = read_differences(place, trial)
        return found, plan_apply(found, "refuse", None, holds_secret)

    found, planned = await asyncio.to_thread(plan)
    if not any(one.files for one in found):
        tell(context, f"Trial {trial.id} changed no files.")
        return
    is_simple = not (planned.conflicts or planned.not_undoable)
    if is_agreed and is_simple:
        key = "y"
    else:
        tell(context, *describe_plan(found, planned, "refuse"))
        question = "Apply the others how?" if planned.conflicts else f"Apply trial {trial.id[:8]}?"
        key = await _ask(context, question, _AT_CONFLICT if planned.conflicts else _YES)
    if key not in _TREATMENTS:
        tell(context, f"Nothing was written. The changes are kept: /try apply {trial.id[:8]}")
        return
    treatment = _TREATMENTS[key]
    arguments = {
        "trial": trial.id,
        "merge": treatment == "merge",
        "skip_conflicts": treatment == "skip",
    }
    await context.follow(context.session.run_tool(NAME, json.dumps(arguments), f"Apply trial {trial.id}"))


def _require_same_folders(context: SlashContext, trial: Trial) -> None:
    """Raise `UsageError` if the trial is of a folder that is not one of the session's."""
    settings = context.session.settings
    own = [Path(os.path.realpath(one)) for one in (settings.cwd, *settings.add_dirs)]
    for folder in trial.folders:
        if not folder.is_repository and not any(Path(folder.root).is_relative_to(one) for one in own):
            raise UsageError(
                f"Trial {trial.id} is one of {folder.root}, which is not a folder of this session.",
                f"Apply it in a shell: sandbur try apply {trial.id}",
            )
