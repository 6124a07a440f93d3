"""`sandbur policy test` and `suggest`: compare rules with the decisions on recorded calls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ....actions.tools.registry import load_declared_traits
from ....actions.workspace.paths import format_count
from ....agent.config.edit.edit_config import toml_string
from ....agent.config.paths import MAX_CONFIG_BYTES, read_bytes
from ....agent.config.settings import SETTINGS, Settings
from ....agent.config.values import parse_config
from ....agent.history.reports.past_calls import past_calls
from ....agent.policy.past.rule_backtest import (
    AS_THEN,
    Backtest,
    BacktestResult,
    ChangedVerdict,
    run_backtest,
)
from ....agent.policy.past.suggest import Suggestions, suggestions
from ....agent.policy.rules.rules import parse_rules
from ....agent.runtime.wiring import gates_of_run, settings_of_session
from ....state.errors import ConfigError, UsageError
from ....state.process.clock import format_time
from ...cli.open_session import open_runtime
from ...terminal.terminal import encode, put, say
from ...terminal.text.sanitize import one_line
from ...terminal.text.wrap import put_wrapped
from .command import PolicyCommand

_MAX_LISTED = 40
_MOST_IN_JSON = 1000
_SUBJECT_CHARS = 100
_WORDS = {
    "allowed": "allowed",
    "approved": "asked, approved",
    "declined": "asked, denied",
    "open": "asked, undecided",
    "refused": "denied",
}


async def test_rules(command: PolicyCommand) -> int:
    """Print how today's rules, or the rules of a file, would judge the recorded calls."""
    async with open_runtime(command) as runtime:
        _warn(runtime.settings)
        settings = _with_rules_of(command.what, runtime.settings) if command.what else runtime.settings
        court = _make_backtest(settings)
        mode = settings.mode if command.overrides.get("mode") else None
        since = _since(command)
        found = await runtime.store.database.offload(
            lambda: run_backtest(past_calls(runtime.store, since), court, mode)
        )
    if command.json:
        put(encode(_encode_backtest(found, since)))
        return 0
    for line in _lines(found, since):
        put_wrapped(line)
    return 0


async def suggest_rules(command: PolicyCommand) -> int:
    """Print the rules that would have avoided the most questions, in the syntax of the configuration."""
    async with open_runtime(command) as runtime:
        _warn(runtime.settings)
        store, since = runtime.store, _since(command)
        court = _make_backtest(runtime.settings)
        denied = (call for call in past_calls(store) if call.then in ("declined", "refused"))
        found = await store.database.offload(lambda: suggestions(past_calls(store, since), denied, court))
    if command.json:
        put(encode(_suggestions_object(found, since)))
    else:
        head, *rules = _list_suggestions(found, since)
        put_wrapped(head, "# ")
        for line in rules:
            put(line)  # a line of TOML is not broken
    return 0


def _make_backtest(settings: Settings) -> Backtest:
    """Return a backtest that judges calls as a run with these settings would."""
    session = settings_of_session(settings, model="")
    gate_of, _ = gates_of_run(session, settings, os.environ)
    return Backtest(session, gate_of)


def _warn(settings: Settings) -> None:
    for notice in settings.notices:
        say(one_line(notice))


def _since(command: PolicyCommand) -> str:
    return format_time(datetime.now(UTC) - command.last)


def _with_rules_of(name: str, settings: Settings) -> Settings:
    """Return the settings with their rules replaced by those of a file."""
    path = Path(name)
    found = read_bytes(path, MAX_CONFIG_BYTES)
    if found is None:
        raise UsageError(f"There is no file {name}.", 'The file has rules like config.toml: allow = ["..."]')
    config = parse_config(found[0], path)
    rules = {row.key: tuple(config.get(row.key, ())) for row in SETTINGS if row.kind == "rules"}
    try:
        for texts in rules.values():
            parse_rules(texts, load_declared_traits())
    except UsageError as error:
        raise ConfigError(f"{path}: {error.message}", error.hint) from None
    return settings.but(**rules)


def _lines(found: BacktestResult, since: str) -> Iterator[str]:
    calls = format_count(found.calls, "call")
    yield f"{calls} since {since[:10]}: {found.changed_count} would be judged differently."
    if found.unknown:
        yield f"{format_count(found.unknown, 'more call')} used tools that are not known here."
    if found.changed_count:
        yield ""
        yield from (f"{count:6}  {_WORDS[then]} -> {now}" for (then, now), count in _list_changes(found))
        yield ""
    listed = found.differences.most_common(_MAX_LISTED)
    for difference, count in listed:
        yield f"{count:6}  {_WORDS[difference.then]} -> {difference.now}: {_title(difference)}"
        yield f"        {one_line(difference.reason)}"
    if rest := found.changed_count - sum(count for _, count in listed):
        yield f"{rest:6}  more: --json"


def _list_changes(found: BacktestResult) -> list[tuple[tuple[str, str], int]]:
    return [(pair, count) for pair, count in found.verdicts.most_common() if AS_THEN[pair[0]] != pair[1]]


def _title(difference: ChangedVerdict) -> str:
    return f"{one_line(difference.tool)} {one_line(difference.subject)[:_SUBJECT_CHARS]}"


def _encode_backtest(found: BacktestResult, since: str) -> dict[str, Any]:
    kept = found.differences.most_common(_MOST_IN_JSON)
    return {
        "since": since,
        "calls": found.calls,
        "calls_of_unknown_tools": found.unknown,
        "changed": found.changed_count,
        "verdicts": [
            {"then": then, "now": now, "calls": count} for (then, now), count in found.verdicts.most_common()
        ],
        "differences": [{"calls": count, **difference._asdict(), "rule": difference.rule or None}
                        for difference, count in kept],
        "calls_left_out": found.changed_count - sum(count for _, count in kept),
    }  # fmt: skip


def _list_suggestions(found: Suggestions, since: str) -> Iterator[str]:
    asked = f"{format_count(found.questions, 'question')} since {since[:10]}"
    saved = sum(one.saved for one in found.rules)
    if not found.rules:
        yield f"# Of {asked}, no rule would have avoided two."
        return
    yield f"# Of {asked}, these rules would have avoided {saved}. They allow no call that was denied."
    yield "allow = ["
    for one in found.rules:
        yield f"    {toml_string(one.rule)},  # {format_count(one.saved, 'question')}"
    yield "]"


def _suggestions_object(found: Suggestions, since: str) -> dict[str, Any]:
    return {
        "since": since,
        "questions": found.questions,
        "rules": [{"rule": one.rule, "saved": one.saved} for one in found.rules],
        "not_suggested": list(found.refused),
    }
