"""What tests of agents use: `from sandbur.testing import ScriptedModel, ToolCall`.

It is the module `sandbur.testing`, wherever it lies: in an installed package beside `sandbur/__init__.py`, in
the sources here, which `sandbur.py` names in its path. Imports are written as from there.
"""

from .actions.tools.functions.injection import overrides
from .agent.sdk.testing.recorded_runs import assert_replays, recorded_replies
from .agent.sdk.testing.scripted_model import Say, ScriptedModel, ScriptEnded, ToolCall
from .agent.sdk.testing.temporary_store import TemporaryStore, temporary_store

__all__ = [
    "Say",
    "ScriptEnded",
    "ScriptedModel",
    "TemporaryStore",
    "ToolCall",
    "assert_replays",
    "overrides",
    "recorded_replies",
    "temporary_store",
]
