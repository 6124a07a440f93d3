"""Agents of a program whose model is a function of the request."""

from collections.abc import Callable
from typing import Any

from sandbur import Agent, ModelRequest
from sandbur.testing import ScriptedModel, TemporaryStore


def last_text(request: ModelRequest) -> str:
    return list(request.messages)[-1].text


def make_agent(
    store: TemporaryStore, reply: Callable[[ModelRequest], Any], name: str = "", **options: Any
) -> Agent[Any]:
    return Agent(ScriptedModel(reply), name=name, store=store.url, env=store.env, **options)
