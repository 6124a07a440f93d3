"""Tools for tests of agents: `from sandbur.testing import ScriptedModel, ToolCall`.

This file is the module `sandbur.testing`. In an installed package it is beside `sandbur/__init__.py`; in the
sources, `sandbur.py` adds this folder to its path. Imports are relative to the package `sandbur`.
"""

from .actions.tools.functions.injection import overrides
from .agent.sdk.testing.recorded_runs import assert_replays, recorded_replies
from .agent.sdk.testing.scripted_model import Say, ScriptedModel, ScriptEnded, ToolCall
from .agent.sdk.testing.store_acceptance import StoreAcceptance
from .agent.sdk.testing.temporary_store import TemporaryStore, temporary_store

__all__ = [
    "Say",
    "ScriptEnded",
    "ScriptedModel",
    "StoreAcceptance",
    "TemporaryStore",
    "ToolCall",
    "assert_replays",
    "overrides",
    "recorded_replies",
    "temporary_store",
]
