"""Asks which rule an answer of "always" adds, and for how long the rule applies."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ....agent.config.edit.edit_config import ConfigPlace, choose_place, find_user_place, keep
from ....agent.policy.rules.rule_suggestions import EDITING, RuleSuggestion
from ....state.calls import PendingCall
from ....state.errors import SandburError
from ...terminal.lines import Line
from ...terminal.text.sanitize import expose, one_line
from .questions import Questions

_KEYS = {"exact": "x", "prefix": "p", "edits": "w"}
_NAMES = {"exact": "exactly this", "prefix": "whatever begins like this"}
_EDITS = f"all edits in this workspace: mode {EDITING}, which leaves protected places alone"
_MAX_CHARS = 80


class Rules(Protocol):
    """The methods of `WaitingCalls` that `Always` needs."""

    def suggest_rules(self, call: PendingCall) -> Sequence[RuleSuggestion]: ...
    def accept(self, offer: RuleSuggestion) -> None: ...


class Always:
    """Offers rules that allow a call and similar calls without a question."""

    def __init__(self, questions: Questions, rules: Rules, cwd: Path, env: Mapping[str, str]) -> None:
        self._questions = questions
        self._rules = rules
        self._cwd = cwd
        self._env = env

    def offers(self, call: PendingCall) -> Sequence[RuleSuggestion]:
        return [offer for offer in self._rules.suggest_rules(call) if offer.kind != "sandbox"]

    def sandbox(self, call: PendingCall) -> RuleSuggestion | None:
        """Return the rule that allows the call and further commands in the sandbox, or None."""
        return next((offer for offer in self._rules.suggest_rules(call) if offer.kind == "sandbox"), None)

    def accept(self, offer: RuleSuggestion) -> None:
        """Apply the offered rule for the rest of this session."""
        self._rules.accept(offer)

    async def choose(self, offers: Sequence[RuleSuggestion]) -> bool:
        """Ask which rule to add and for how long; return whether a rule was added."""
        offer = offers[0] if len(offers) == 1 else await self._choose_rule(offers)
        if offer is None:
            return False
        try:
            return await self._choose_duration(offer)
        except SandburError as problem:
            self._questions.renderer.lines([("red", one_line(str(problem)))])
            return False

    async def _choose_rule(self, offers: Sequence[RuleSuggestion]) -> RuleSuggestion | None:
        by_key = {_KEYS[offer.kind]: offer for offer in offers}
        choices = {key: _name_offer(offer) for key, offer in by_key.items()}
        return by_key.get(await self._questions.key("Always what?", choices))

    async def _choose_duration(self, offer: RuleSuggestion) -> bool:
        """Show the rule in full, ask for how long to add it, and add it; return whether it was added."""
        self._questions.show("From now on this runs without a question", _show_rule(offer))

        places = {"u": find_user_place(self._env)}
        if (place := choose_place(self._cwd, self._env)).project is not None:
            places = {"p": place, **places}
        choices = {"s": "yes, in this session"}
        for key, place in places.items():
            whose = "in this project" if place.project is not None else "in every folder"
            choices[key] = f"yes, {whose} permanently ({expose(str(place.path))})"
        key = await self._questions.key("Add it?", choices, firm="".join(places))
        if key in places:
            self._keep(offer, places[key])
            self._questions.renderer.lines([("dim", f"  Saved in {expose(str(places[key].path))}.")])
        if key:
            self._rules.accept(offer)
        return bool(key)

    def _keep(self, offer: RuleSuggestion, place: ConfigPlace) -> None:
        key, value = ("allow", offer.rule) if offer.rule else ("mode", EDITING)
        keep(place, key, value, self._env)


def _name_offer(offer: RuleSuggestion) -> str:
    """Return a short description of an offer; a long rule is left out."""
    if not offer.rule:
        return _EDITS
    name = _NAMES[offer.kind]
    is_short = len(offer.rule) <= _MAX_CHARS and "\n" not in offer.rule
    return f"{name}: {expose(offer.rule)}" if is_short else name


def _show_rule(offer: RuleSuggestion) -> list[Line]:
    if not offer.rule:
        return [("", _EDITS)]
    return [("", expose(line)) for line in offer.rule.split("\n")]
