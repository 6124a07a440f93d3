"""Checks of `sandbur doctor` for keys and models; with `--online` they also send a request to each model."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence

from ....actions.ports import Discarded, ModelRequest, Reply
from ....agent.config.settings import DEFAULT_MODELS, Settings
from ....agent.models.connect import DEMO, choose_model, connect
from ....agent.models.model import RetryPolicy, TryLimits, WireModel
from ....agent.models.prices.pricing import price_of
from ....agent.models.providers import PROFILES
from ....agent.session.secrets import masker_for
from ....state.application import Usage
from ....state.conversation.messages import person_message
from ....state.conversation.transcript import Transcript
from ....state.errors import SandburError
from .installation_checks import Finding

_QUESTION = "Answer with the one word: yes"
_MOST_TOKENS = 64
"""The most tokens of a test answer; some models use a part of them for thinking."""


def keys() -> Finding:
    names = [name for name, _ in DEFAULT_MODELS]
    known = [name for _, model in DEFAULT_MODELS for name in PROFILES[model.partition("/")[0]].key_env]
    found = [name for name in known if os.environ.get(name, "").strip()]
    if found:
        return Finding("good", "keys", f"set: {', '.join(found)}")
    return Finding("note", "keys", f"none of {', '.join(names)} is set", f"export {names[0]}=...")


def models(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for the model of a new session, and for each of its fallback models."""
    model, notices = choose_model(settings.model, os.environ)
    if model == DEMO:
        if notices:
            text = "demo, a scripted model: no other model is configured"
            yield Finding("note", "model", text, f"export {DEFAULT_MODELS[0][0]}=...")
        else:
            yield Finding("good", "model", DEMO)
        return
    for name in dict.fromkeys((model, *settings.fallback_models)):
        problem = _problem(settings, name)
        if problem is not None:
            yield Finding("bad", "model", f"{name}: {problem.message}", problem.hint.removeprefix("Run: "))
        else:
            yield Finding("good", "model", ": ".join([name, *(notices if name == model else ())]))


def _problem(settings: Settings, name: str) -> SandburError | None:
    try:
        _connect(settings, name)
    except SandburError as error:
        return error
    return None


def _connect(settings: Settings, name: str, within_s: float = 1.0) -> WireModel:
    return connect(
        name,
        env=os.environ,
        providers=settings.providers,
        aliases=settings.aliases,
        retry=RetryPolicy(max_tries=1),
        price=lambda usage: (price := price_of(name, settings.prices)) and price(usage),
        max_output_tokens=_MOST_TOKENS,
        limits=TryLimits(idle_s=within_s, total_s=within_s),
    )


def list_models(settings: Settings) -> Sequence[str]:
    """Return the configured models, and the default model of each other provider whose key is set."""
    chosen = [choose_model(settings.model, os.environ)[0], *settings.fallback_models]
    providers = {name.partition("/")[0] for name in chosen}
    others = [
        model
        for variable, model in DEFAULT_MODELS
        if os.environ.get(variable, "").strip() and model.partition("/")[0] not in providers
    ]
    return [name for name in dict.fromkeys((*chosen, *others)) if name != DEMO]


async def answers(settings: Settings, within_s: float) -> list[Finding]:
    """Send a small request to each model, all at the same time, and return a finding for each model.

    `within_s` limits the wait for each answer, in seconds. Keys in error messages are masked.
    """
    names = list_models(settings)
    if not names:
        return [Finding("note", "online", "no model is configured", "export ANTHROPIC_API_KEY=...")]
    return list(await asyncio.gather(*(_answer(settings, name, within_s) for name in names)))


async def _answer(settings: Settings, name: str, within_s: float) -> Finding:
    began, has_answered = time.monotonic(), False
    request = ModelRequest("", (), (Transcript.of(person_message(_QUESTION)),))
    try:
        model = _connect(settings, name, within_s)
        try:
            async with asyncio.timeout(within_s + 1):
                async for event in model.stream(request):
                    has_answered = has_answered or isinstance(event, Discarded)
                    if isinstance(event, Reply):
                        took = f"{time.monotonic() - began:.1f} s"
                        return Finding(
                            "good",
                            "online",
                            f"{name} answered in {took}; {_format_usage(event.usage + event.discarded)}",
                        )
        finally:
            await model.aclose()
    except SandburError as error:
        masked = masker_for(os.environ, settings.cwd).text
        detail = masked(f"{name}: {error.message}")
        hint = masked(error.hint.removeprefix("Run: ") or _format_retry(name))
        return Finding("note" if has_answered else "bad", "online", detail, hint)
    except TimeoutError:
        pass
    return Finding("bad", "online", f"{name}: no answer within {within_s:g} s", _format_retry(name))


def _format_retry(name: str) -> str:
    return f"sandbur -p hello -v -m {name}"


def _format_usage(usage: Usage) -> str:
    def format_tokens(tokens: int | None) -> str:
        return "?" if tokens is None else str(tokens)

    cost = "cost unknown" if usage.cost_usd is None else f"${usage.cost_usd:.6f}"
    return f"{format_tokens(usage.input_tokens)} tokens in, {format_tokens(usage.output_tokens)} out, {cost}"
