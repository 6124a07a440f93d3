"""The gate: decides whether a tool call may run, needs approval, or is denied."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from posixpath import basename, join, realpath
from typing import Any, Self

from ...actions.ports import Searching, Tool, Verdict, implements
from ...actions.tools.registry import load_declared_traits
from ...actions.tools.shell.read_only import prove
from ...actions.turn.bugs_logged import BugsLogged
from ...actions.workspace.protected.secret_files import is_secret_file
from ...state.application import ExecutionMode, PlanTerms
from ...state.conversation.approved_plan import INSIDE_PLAN, OUTSIDE_PLAN
from ...state.session import SessionSettings
from ...state.store.seals import key_path
from ..config.machine_policy import MachinePolicy
from .hidden_files import HiddenFiles, find_hiding_rules_off_disk
from .protected_places import why_always_asked, why_protected
from .rules import path_rules, shell_rules, web_rules
from .rules.path_rules import Workspace
from .rules.rules import (
    SANDBOXED,
    Call,
    Rule,
    by_precision,
    find_covering_rules,
    literal_of,
    parse_rules,
    parse_sound_rules,
)
from .shell.destructive_commands import find_destruction
from .shell.edits import only_edits
from .shell.git_programs import why_git_may_run_programs
from .shell.guarded_places import GuardedPlace, find_guarded_places
from .shell.lasting_changes import find_lasting_change
from .shell.read_paths import secret_below, why_not_read_only
from .shell.reasons import purpose, why_always_asked_write, why_protected_write


class Policy:
    """A gate of rules and modes: deny beats ask, ask beats allow, and without a rule the mode decides.

    Among rules of one kind, the more specific ones come first. Irreversible commands ask in every mode. If
    there are deny rules for commands, a command that hides what it runs asks, too.
    """

    def __init__(
        self,
        allow: Sequence[Rule],
        deny: Sequence[Rule],
        cwd: Path,
        add_dirs: Sequence[Path] = (),
        ask: Sequence[Rule] = (),
        own: Sequence[Path] = (),
        runs_catastrophes: bool = False,
        is_confined: bool = False,
    ) -> None:
        """`is_confined`: commands run in a sandbox without network access. `own` are the folders of Sandbur
        itself."""
        self._allow: tuple[Rule, ...] = by_precision(allow)
        self._deny: tuple[Rule, ...] = by_precision(deny)
        self._ask_rules: tuple[Rule, ...] = by_precision(ask)
        self._workspace = Workspace(cwd, add_dirs)
        self._own = tuple(realpath(folder) for folder in own)
        """The folders of Sandbur itself."""
        self._runs_catastrophes = runs_catastrophes
        self._is_confined = is_confined
        self._hidden: HiddenFiles | None = None
        self._plan: tuple[Rule, ...] | None = None
        """The rules of the approved plan; None without such a plan."""
        self._bound: tuple[PlanTerms, Policy] | None = None
        """The terms of the last plan, and this policy bound to them."""

    @classmethod
    def of_session(cls, session: SessionSettings, machine: MachinePolicy, **places: Any) -> Self:
        """Return the policy for a session's settings; raises `UsageError` for an invalid rule."""
        return cls(
            parse_rules(session.allow),
            parse_rules((*session.deny, *machine.deny)),
            Path(session.cwd),
            [Path(folder) for folder in session.add_dirs],
            parse_rules((*session.ask, *machine.ask)),
            runs_catastrophes=session.catastrophic == "run",
            **places,
        )

    def judge(
        self,
        tool: Tool,
        arguments: Any,
        mode: ExecutionMode,
        paths: Sequence[str] | None = None,
        plan: PlanTerms | None = None,
    ) -> Verdict:
        with BugsLogged(f"the verdict on a call of {tool.spec.name}") as border:
            policy = self if plan is None else self._bind(plan)
            return policy._judge(Call.of(tool, arguments, paths), mode)
        return Verdict("ask", f"it could not be judged: a bug in Sandbur ({border.bug})", is_firm=True)

    def _judge(self, call: Call, mode: ExecutionMode) -> Verdict:
        try:
            return (
                self._check_deny_rules(call)
                or self._make_firm(self._check_questions(call, mode))
                or self._judge_network(call, mode)
                or self._make_firm_if_protected(call, self._decide_by_mode(call, mode))
            )
        except ValueError:
            # The path contains a NUL or a lone surrogate: no system call accepts it.
            return Verdict("deny", f"{call.tool} was given a path that no system call accepts")
        except OSError as error:
            # A link changed while it was followed, or links form a cycle.
            return Verdict("ask", f"its path cannot be resolved: {error.strerror}")

    def _bind(self, plan: PlanTerms) -> Policy:
        """Return this policy for a session that works through an approved plan."""
        if self._bound is None or self._bound[0] != plan:
            bound = copy.copy(self)
            bound._plan = by_precision(parse_sound_rules(plan.rules))
            self._bound = plan, bound
        return self._bound[1]

    def is_allowed_by_rule(self, tool: Tool, arguments: Any) -> bool:
        """Return whether allow rules cover the whole call, regardless of its mode."""
        return bool(self._find_allow_rules(Call.of(tool, arguments, None)))

    def _make_firm(self, verdict: Verdict | None) -> Verdict | None:
        return None if verdict is None else replace(verdict, is_firm=True)

    def _make_firm_if_protected(self, call: Call, verdict: Verdict) -> Verdict:
        """Return a firm verdict, which only a person may answer, if the call concerns a protected place."""
        if verdict.decision != "ask" or not self._is_protected(call):
            return verdict
        why = self._name_protected_write(call) if call.traits.has_write_rules else None
        return replace(verdict, is_firm=True, reason=why or verdict.reason)

    def _is_protected(self, call: Call) -> bool:
        """Return whether a call concerns a protected place."""
        if call.traits.runs_commands:
            return self._why_protected_write(call) is not None or any(
                place.kind == "protected" for place in self._find_guarded_places(call)
            )
        return any(why_protected(self._workspace.real(path), self._own) for path in call.paths)

    def _check_deny_rules(self, call: Call) -> Verdict | None:
        for rule in self._deny:
            if call.is_named_by(rule) and self._hits(rule, call):
                return Verdict("deny", f"denied by rule {rule.label}", rule.text)
        rule, _ = self._find_hiding_rules(call)
        if rule is not None:
            return Verdict("deny", f"denied by rule {rule.label}, which applies to all reading", rule.text)
        return None

    def _check_questions(self, call: Call, mode: ExecutionMode) -> Verdict | None:
        """Return the question that no mode and no wide rule skips, or None. In plan mode, deny in its
        place."""
        verdict = self._find_question(call)
        if verdict is not None and mode == "plan" and self._concern(call) is not None:
            return Verdict("deny", f"plan mode only looks: {verdict.reason}", verdict.rule)
        return verdict

    def _find_question(self, call: Call) -> Verdict | None:
        for rule in self._ask_rules:
            if call.is_named_by(rule) and self._hits(rule, call):
                return Verdict("ask", f"asked for by rule {rule.label}", rule.text)
        _, near = self._find_hiding_rules(call)
        if near is not None:
            return Verdict("ask", f"may show files that the rule {near.label} denies", near.text)
        if call.traits.begins_plan:
            return Verdict("ask", "what the plan names will run without a further question")
        if call.traits.asks == "always" and not self._is_named_exactly(call):
            return Verdict("ask", f"{call.tool} is declared to ask every time")
        if self._is_named_exactly(call):
            return None
        if why := self._why_always_asked(call):
            return Verdict("ask", why)
        if not call.traits.runs_commands:
            return None
        return self._check_doubts(call) or self._check_destructive(call)

    def _why_always_asked(self, call: Call) -> str | None:
        """Return the change of a call that no mode and no wide rule allows, or None."""
        if call.traits.runs_commands:
            return why_always_asked_write(call.sight, self._cwd_of(call), self._own)
        if (call.traits.writes_files or call.traits.shows == "content") and not call.is_virtual:
            for path in call.paths:
                real = self._workspace.real(path)
                if real in (str(key_path(Path(folder))) for folder in self._own):
                    return f"concerns the key that seals the record: {_format_path(real)}"
                if call.traits.writes_files and (why := why_always_asked(real, self._own)):
                    return f"writes to a protected place: {_format_path(path)} ({_format_path(why)})"
        return None

    def _check_doubts(self, call: Call) -> Verdict | None:
        """Return a question if a command may run parts that deny rules cannot be checked against, or None."""
        why = next(iter(call.sight.doubts), "")
        for rule in self._deny if why else ():
            if call.is_named_by(rule) and rule.pattern is not None:
                return Verdict("ask", f"may run what the rule {rule.label} denies: {why}", rule.text)
        return None

    def _check_destructive(self, call: Call) -> Verdict | None:
        if self._runs_catastrophes:
            return None
        why = find_destruction(call.subject, self._cwd_of(call), self._workspace.roots, call.sight)
        if why is not None:
            return Verdict("ask", f"it cannot be undone: {why}")
        why = find_lasting_change(call.sight, self._cwd_of(call))
        return None if why is None else Verdict("ask", f"it outlasts the session: {why}")

    def _judge_network(self, call: Call, mode: ExecutionMode) -> Verdict | None:
        """Return the verdict on a network call, or None for other calls."""
        if call.traits.reaches not in ("address", "service"):
            return None
        judge = web_rules.verdict if call.traits.reaches == "address" else web_rules.service_verdict
        allow = [rule for rule in self._allow if call.is_named_by(rule)]
        verdict = judge(call.tool, call.subject, mode, allow)
        if verdict.decision != "ask":
            return verdict
        return self._judge_by_plan(call) or self._ask(verdict.reason)

    def _decide_by_mode(self, call: Call, mode: ExecutionMode) -> Verdict:
        if mode == "yolo":
            return Verdict(
                "allow", "everything is allowed in yolo mode", ", ".join(self._find_allow_rules(call))
            )
        concern = self._concern(call)
        if concern is None:
            where = "is declared to only read" if call.traits.reaches else "only reads inside the workspace"
            where = "only reads files that are not on the disk" if call.is_virtual else where
            by_proof = call.traits.runs_commands and not self._find_allow_rules(call)
            return Verdict("allow", f"{call.tool} {where}", by_proof=by_proof)
        starts_unnamed = self._plan is not None and call.traits.keeps_mode
        is_silent = call.traits.asks == "never" and not starts_unnamed and not call.own_question
        if is_silent and (mode != "plan" or call.traits.keeps_mode):
            return Verdict("allow", f"{call.tool} is declared to need no question")
        if mode == "plan" and not call.is_read_only:
            return Verdict("deny", f"plan mode only looks: {concern}")
        if rules := self._find_allow_rules(call):
            used = ", ".join(rules)
            return Verdict("allow", f"allowed by rule {used}", used)
        if mode == "plan":
            return Verdict("deny", f"plan mode only looks inside the workspace: {concern}")
        if self._plan is not None:
            # Only what the person approved passes, and not what auto-edit mode adds to it.
            mode = "interactive"
        if mode == "auto-edit" and call.traits.writes_files:
            return self._edit(call)
        return self._judge_by_plan(call) or self._pass_inside(call, mode) or self._ask(concern)

    def _ask(self, concern: str) -> Verdict:
        return Verdict("ask", concern if self._plan is None else f"{OUTSIDE_PLAN}: {concern}")

    def _judge_by_plan(self, call: Call) -> Verdict | None:
        """Allow a call that the approved plan covers, or return None.

        No plan covers a protected place, a place outside the workspace, or a command in another folder.
        """
        if not self._plan:
            return None
        if call.traits.reaches == "address":
            named = (rule for rule in self._plan if call.is_named_by(rule))
            rules = [rule.text for rule in named if web_rules.covers(rule.pattern, call.subject)][:1]
        else:
            rules = self._find_covering(self._plan, call)
        if not rules or self._is_protected(call) or self._find_outside_path(call):
            return None
        if call.traits.runs_commands and (
            self._cwd_of(call) != self._workspace.cwd or next(self._find_guarded_places(call), None)
        ):
            return None
        used = ", ".join(rules)
        return Verdict("allow", f"{INSIDE_PLAN}: {used}", used)

    def _pass_inside(self, call: Call, mode: ExecutionMode) -> Verdict | None:
        """Allow a command that only edits the workspace, or that a sandbox confines to it; else None."""
        if mode == "auto-edit" and self._only_edits(call):
            why = "makes, copies or moves files inside the workspace, as auto-edit mode may"
            return Verdict("allow", why)
        if mode == "auto-edit" and self._is_confined and self._stays_inside(call):
            return Verdict("allow", "the sandbox keeps it in the workspace, without a network")
        rule = self._find_sandbox_rule(call)
        if rule is not None and call.sight.commands and self._stays_inside(call):
            why = f"allowed by rule {rule.text}: a sandbox keeps it in the workspace, without a network"
            return Verdict("allow", why, rule.text, in_sandbox=True)
        return None

    def _only_edits(self, call: Call) -> bool:
        """Return whether a command does no more than the file tools may do in auto-edit mode."""
        if not call.traits.runs_commands or self._find_outside_path(call) or self._why_protected_write(call):
            return False
        return only_edits(call.subject, self._workspace, self._cwd_of(call), self._own)

    def _find_sandbox_rule(self, call: Call) -> Rule | None:
        """Return the rule that allows a call inside of a sandbox, or None."""
        rules = (rule for rule in self._allow if rule.tool == SANDBOXED)
        return next((rule for rule in rules if fnmatchcase(call.tool, rule.pattern or "*")), None)

    def _stays_inside(self, call: Call) -> bool:
        """Return whether a command visibly concerns only the workspace. The sandbox enforces the rest."""
        if not call.traits.runs_commands or self._find_outside_path(call) or call.sight.doubts:
            return False

        places = self._find_guarded_places(call)
        guarded = (place.kind for place in places if place.text and not place.is_output)
        return not {"outside", "secret"}.intersection(guarded) and self._why_protected_write(call) is None

    def _concern(self, call: Call) -> str | None:
        """Return why a call needs a decision, or None if it only reads files of the workspace that are not
        secret."""
        if call.traits.runs_commands:
            return self._concern_of_command(call)
        if outside := self._find_outside_path(call):
            return outside
        if call.traits.writes_files:
            return "writes files"
        if not call.is_read_only:
            why = call.own_question or f"may change something: {call.tool}"
            return ", ".join(filter(None, (why, call.traits.description)))
        return self._find_secret_file(call) if call.traits.shows == "content" else None

    def _concern_of_command(self, call: Call) -> str | None:
        if outside := self._find_outside_path(call):
            return outside
        why = why_not_read_only(call.subject, self._workspace, self._cwd_of(call))
        if why:
            return why
        if why is None:
            return None
        if why := self._why_protected_write(call):
            return why
        guarded = next((one.why for one in self._find_guarded_places(call)), "")
        aim = purpose(call.sight, self._workspace, prove(call.subject).doubt)
        return ", ".join(filter(None, (aim, guarded, self._why_git_runs_more(call))))

    def _why_git_runs_more(self, call: Call) -> str | None:
        """Return the program of a repository that git may run, or None. No wildcard allows that."""
        return why_git_may_run_programs(call.sight, self._cwd_of(call))

    def _why_protected_write(self, call: Call) -> str | None:
        """Return the protected place that a command visibly writes to, or None."""
        return why_protected_write(call.sight, self._cwd_of(call), self._own)

    def _find_outside_path(self, call: Call) -> str | None:
        path = self._workspace.outside(call.paths)
        return (
            None
            if path is None
            else f"leads outside the workspace: {_format_path(self._workspace.real(path))}"
        )

    def _find_secret_file(self, call: Call) -> str | None:
        for path in call.paths:
            real = self._workspace.real(path)
            if is_secret_file(real) or is_secret_file(self._workspace.absolute(path)):
                return f"shows a secret file: {_format_path(real)}"
            if implements(call.source, Searching):
                found = secret_below(real, not call.source.reaches_hidden(call.arguments))
                if found is not None:
                    return f"shows a secret file: {_format_path(found)}"
        return None

    def _edit(self, call: Call) -> Verdict:
        if outside := self._find_outside_path(call):
            return Verdict("ask", outside)
        if call.is_virtual:
            return Verdict("allow", "edits of files that are not on the disk are allowed in auto-edit mode")
        if not call.paths:
            return Verdict("ask", f"may write anywhere: {_format_path(call.subject)}")
        if why := self._name_protected_write(call):
            return Verdict("ask", why)
        return Verdict("allow", "edits inside the workspace are allowed in auto-edit mode")

    def _name_protected_write(self, call: Call) -> str | None:
        """Return the first protected place that a call of a file tool writes to, as a clause, or None."""
        for path in call.paths:
            if why := why_protected(self._workspace.real(path), self._own):
                return f"writes to a protected place: {_format_path(path)} ({_format_path(why)})"
        return None

    def _find_allow_rules(self, call: Call) -> list[str]:
        """Return the rules that together cover the whole call; an empty list if a part of it is not
        covered."""
        return self._find_covering(self._allow, call)

    def _find_covering(self, allow: Sequence[Rule], call: Call) -> list[str]:
        rules = [rule for rule in allow if call.is_named_by(rule)]
        if not rules:
            return []
        whole = next((rule for rule in rules if rule.pattern is None), None)
        if whole is not None:
            return [whole.text]
        if call.traits.runs_commands:
            return self._covering_command(rules, call)
        return self._covering_paths(rules, call)

    def _is_named_exactly(self, call: Call) -> bool:
        return any(
            rule.pattern is not None and literal_of(rule.pattern) == call.subject.strip()
            for rule in self._allow
            if call.is_named_by(rule)
        )

    def _covering_command(self, rules: Sequence[Rule], call: Call) -> list[str]:
        everything = next((rule for rule in rules if rule.pattern == "*"), None)
        if everything is not None:
            return [everything.text]
        if self._workspace.outside(call.paths) is not None:
            return []
        exact = next((rule for rule in rules if literal_of(rule.pattern or "") == call.subject.strip()), None)
        if exact is not None:
            return [exact.text]

        commands, doubts = shell_rules.read_commands(call.subject)
        if doubts or self._why_protected_write(call) or self._why_git_runs_more(call):
            return []
        possible = shell_rules.select_possible(rules, commands)
        used = find_covering_rules(possible, commands, shell_rules.covers)
        patterns = [rule.pattern or "" for rule in used]
        places = self._find_guarded_places(call) if used else ()
        is_named = all(place.is_named_in(patterns, self._workspace) for place in places)
        return [rule.text for rule in used] if is_named else []

    def _find_guarded_places(self, call: Call) -> Iterator[GuardedPlace]:
        return find_guarded_places(call.sight, self._workspace, self._cwd_of(call), self._own)

    def _covering_paths(self, rules: Sequence[Rule], call: Call) -> list[str]:
        if not call.paths:
            matching = (rule.text for rule in rules if fnmatchcase(call.subject, rule.pattern or ""))
            return list(matching)[:1]
        covers = self._covers_write if call.traits.writes_files else self._covers
        return [rule.text for rule in find_covering_rules(rules, call.paths, covers)]

    def _covers(self, pattern: str, path: str) -> bool:
        return path_rules.covers(pattern, path, self._workspace)

    def _covers_write(self, pattern: str, path: str) -> bool:
        """Return whether a pattern covers a write to a path. A protected place has to be named in the
        pattern."""
        if not self._covers(pattern, path):
            return False
        real = self._workspace.real(path)
        why = why_protected(real, self._own)
        lower = pattern.lower()
        return why is None or why in lower or basename(real).lower() in lower

    def _hits(self, rule: Rule, call: Call) -> bool:
        if rule.pattern is None:
            return True
        if call.traits.runs_commands:
            return shell_rules.hits(rule.pattern, call.subject, call.sight)
        if call.traits.reaches in ("address", "configured"):
            return web_rules.hits(rule.pattern, call.subject)
        if fnmatchcase(call.subject, rule.pattern):
            return True
        return any(path_rules.hits(rule.pattern, path, self._workspace) for path in call.paths)

    def _find_hiding_rules(self, call: Call) -> tuple[Rule | None, Rule | None]:
        """Return the rule that hides a path of the call, and the rule that hides a file below one of its
        paths."""
        if not self._deny or not (call.traits.shows or call.traits.runs_commands):
            return None, None
        if call.is_virtual:
            return find_hiding_rules_off_disk(self._rules_that_hide(), call)
        if not (hidden := self._hidden_files()):
            return None, None
        if call.traits.runs_commands:
            return hidden.rule_for_command(call.sight, self._cwd_of(call))
        if rule := hidden.rule_for(call.paths):
            return rule, None
        return None, hidden.rule_below(call.paths) if implements(call.source, Searching) else None

    def _hidden_files(self) -> HiddenFiles:
        if self._hidden is None:
            self._hidden = HiddenFiles(self._rules_that_hide(), self._workspace)
        return self._hidden

    def _rules_that_hide(self) -> list[Rule]:
        """Return the rules that deny reading files."""
        readers = [
            name
            for name, traits in load_declared_traits().items()
            if traits.shows == "content" and not traits.writes_files
        ]
        return [rule for rule in self._deny if rule.pattern is not None and any(map(rule.names, readers))]

    def _cwd_of(self, call: Call) -> str:
        """Return the folder in which the command of a call runs."""
        return realpath(join(self._workspace.cwd, *call.paths[:1]))


def _format_path(path: str) -> str:
    text = path if path.isprintable() else ascii(path)
    return text if len(text) <= 200 else f"{text[:200]}..."
