"""The terminal agent you can kill at any moment: the names that Python programs import.

The folders `agent`, `actions`, `state` and `ui` beside this file are subpackages of `sandbur`. Only the names
in `__all__` are public. A name is loaded when it is first used.
"""

import gc
import os
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .actions.ports import (
        FormattedEntry,
        Formatter,
        Model,
        ModelEvent,
        ModelRequest,
        Render,
        Reply,
        TokenCounter,
        ToolOutcome,
        ToolSpec,
        WireFormat,
        events,
    )
    from .actions.ports.events import Notice, TextDelta, ThinkingDelta
    from .actions.ports.user_input import UserAnswer, UserInput, UserQuestion
    from .actions.tools.fetch_attachment import fetch_attachment
    from .actions.tools.files.virtual import file_tools
    from .actions.tools.functions.decorator import tool
    from .actions.tools.functions.function_tool import FunctionTool as Tool
    from .actions.tools.functions.injection import Depends
    from .actions.tools.functions.results import TaskComplete, ToolError
    from .actions.tools.functions.run_context import RunContext
    from .actions.tools.http.documents import http_tools, openapi_tools
    from .actions.tools.python.tool import python_tool
    from .actions.turn.flows.flow import Flow, flow
    from .actions.workspace.backends.backend import FileBackend, SessionMemory, StoreFiles, WorkspaceFolder
    from .actions.workspace.backends.composite import Composite
    from .agent.agents.hub.hub import MessageHub
    from .agent.agents.hub.participant import HubMessage
    from .agent.agents.workflows.branch_report import escalate
    from .agent.agents.workflows.kinds import FirstAnswer, Loop, Map, Parallel, Sequential, Vote
    from .agent.agents.workflows.workflow import Workflow, retry
    from .agent.config.setting import Setting
    from .agent.config.setting_reader import SettingReader
    from .agent.extensions.extension import CommandEntry, Extension, SlashEntry
    from .agent.extensions.middleware.call_limit import CallLimit
    from .agent.extensions.middleware.middleware import (
        Middleware,
        MiddlewareSession,
        NextModelCall,
        NextToolCall,
        ProposedCall,
        ToolCallRequest,
    )
    from .agent.extensions.middleware.model_router import ModelRouter, Route
    from .agent.extensions.middleware.pii_redaction import PIIRedaction
    from .agent.extensions.middleware.retry_and_timeout import Retry, TimeLimit
    from .agent.knowledge.memory.memory import Memory
    from .agent.knowledge.retrieval.embedding.embedder import Embedder
    from .agent.knowledge.retrieval.knowledge_base import KnowledgeBase
    from .agent.knowledge.retrieval.passages import Passage
    from .agent.models.configured_models import connect_model, provider_token_counter
    from .agent.review.evaluation.decisions.evaluator import DecisionEvaluator
    from .agent.review.evaluation.evaluator import Evaluator
    from .agent.review.evaluation.measures.metrics import Judgement, JudgeMetric, Metric, measure_judges
    from .agent.review.evaluation.measures.result import EvaluationResult, EvaluationRun
    from .agent.review.evaluation.suites.suite import Suite
    from .agent.review.evaluation.suites.task import EarlierSession, Solution, Task
    from .agent.review.plans.plan_tool import plan_tools
    from .agent.runtime.compaction import Compaction
    from .agent.runtime.extension_runtime import ExtensionRuntime, SessionAdditions
    from .agent.runtime.memory_store import MemoryChange, MemoryStore, RecalledFact, VerifiableMemoryStore
    from .agent.runtime.tool_groups import ToolGroups
    from .agent.runtime.tool_servers import (
        Elicitation,
        ServerPrompt,
        ServerResource,
        ServerTool,
        ToolServers,
    )
    from .agent.runtime.version import VERSION as __version__  # noqa: N811
    from .agent.sdk.agent import Agent
    from .agent.sdk.arguments import Handoff
    from .agent.sdk.question_board import OpenQuestion, QuestionBoard
    from .agent.sdk.runs.pending import PendingToolCall
    from .agent.sdk.runs.result import ChildResult, DoneResult, RunFailed, RunResult
    from .agent.sdk.runs.rules import ModelRetry
    from .agent.sdk.runs.stream import EventStream
    from .agent.sdk.runs.trial_runs import AgentTrial, TrialChange
    from .agent.sdk.session import AgentSession
    from .agent.sdk.session_plan import NotebookPlan as Plan
    from .agent.sdk.session_plan import NotebookStep as PlanStep
    from .agent.sdk.session_plan import SessionPlan
    from .agent.sdk.shipped_tools import web_tools, workspace_tools
    from .agent.sdk.stored_sessions import SessionInfo, SessionUsage
    from .agent.session.observers import Observer
    from .agent.session.run_limits import Limits
    from .state.application import Usage
    from .state.burr.persister import AsyncSandburPersister, SandburPersister
    from .state.conversation.attachments import Audio, Document, Image, Video
    from .state.conversation.messages import Message, Text, Thinking, ToolResult, ToolUse
    from .state.databases.own_stores import StoreServer, register_store
    from .state.databases.servers.requirements import Connection as StoreConnection
    from .state.databases.servers.server_errors import ServerError as StoreServerError
    from .state.errors import (
        ContextFull,
        CredentialsError,
        MiddlewareError,
        ModelError,
        Overloaded,
        SandburError,
        SessionHeld,
        SessionNotFound,
        SessionParked,
        StoreError,
        Unreachable,
        UserCodeError,
    )
    from .ui.terminal.terminal_input import TerminalInput

__all__ = [
    "Agent",
    "AgentSession",
    "AgentTrial",
    "AsyncSandburPersister",
    "Audio",
    "CallLimit",
    "ChildResult",
    "CommandEntry",
    "Compaction",
    "Composite",
    "ContextFull",
    "CredentialsError",
    "DecisionEvaluator",
    "Depends",
    "Document",
    "DoneResult",
    "EarlierSession",
    "Elicitation",
    "Embedder",
    "EvaluationResult",
    "EvaluationRun",
    "Evaluator",
    "EventStream",
    "Extension",
    "ExtensionRuntime",
    "FileBackend",
    "FirstAnswer",
    "Flow",
    "FormattedEntry",
    "Formatter",
    "Handoff",
    "HubMessage",
    "Image",
    "JudgeMetric",
    "Judgement",
    "KnowledgeBase",
    "Limits",
    "Loop",
    "Map",
    "Memory",
    "MemoryChange",
    "MemoryStore",
    "Message",
    "MessageHub",
    "Metric",
    "Middleware",
    "MiddlewareError",
    "MiddlewareSession",
    "Model",
    "ModelError",
    "ModelEvent",
    "ModelRequest",
    "ModelRetry",
    "ModelRouter",
    "NextModelCall",
    "NextToolCall",
    "Notice",
    "Observer",
    "OpenQuestion",
    "Overloaded",
    "PIIRedaction",
    "Parallel",
    "Passage",
    "PendingToolCall",
    "Plan",
    "PlanStep",
    "ProposedCall",
    "QuestionBoard",
    "RecalledFact",
    "Render",
    "Reply",
    "Retry",
    "Route",
    "RunContext",
    "RunFailed",
    "RunResult",
    "SandburError",
    "SandburPersister",
    "Sequential",
    "ServerPrompt",
    "ServerResource",
    "ServerTool",
    "SessionAdditions",
    "SessionHeld",
    "SessionInfo",
    "SessionMemory",
    "SessionNotFound",
    "SessionParked",
    "SessionPlan",
    "SessionUsage",
    "Setting",
    "SettingReader",
    "SlashEntry",
    "Solution",
    "StoreConnection",
    "StoreError",
    "StoreFiles",
    "StoreServer",
    "StoreServerError",
    "Suite",
    "Task",
    "TaskComplete",
    "TerminalInput",
    "Text",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "TimeLimit",
    "TokenCounter",
    "Tool",
    "ToolCallRequest",
    "ToolError",
    "ToolGroups",
    "ToolOutcome",
    "ToolResult",
    "ToolServers",
    "ToolSpec",
    "ToolUse",
    "TrialChange",
    "Unreachable",
    "Usage",
    "UserAnswer",
    "UserCodeError",
    "UserInput",
    "UserQuestion",
    "VerifiableMemoryStore",
    "Video",
    "Vote",
    "WireFormat",
    "Workflow",
    "WorkspaceFolder",
    "__version__",
    "connect_model",
    "escalate",
    "events",
    "fetch_attachment",
    "file_tools",
    "flow",
    "http_tools",
    "measure_judges",
    "openapi_tools",
    "plan_tools",
    "provider_token_counter",
    "python_tool",
    "register_store",
    "retry",
    "tool",
    "web_tools",
    "workspace_tools",
]

# In an installed package this file is `sandbur/__init__.py`, beside the folders, `testing.py` and the others.
_FOLDER = os.path.dirname(__file__)  # noqa: PTH120
_PUBLIC = ("agent/sdk/testing/public", "agent/review/evaluation/adapters/public")
__path__ = [_FOLDER, *(os.path.join(_FOLDER, folder) for folder in _PUBLIC)]  # noqa: PTH118

_HOMES = {
    "FirstAnswer": ("sandbur.agent.agents.workflows.kinds", "FirstAnswer"),
    "Loop": ("sandbur.agent.agents.workflows.kinds", "Loop"),
    "Map": ("sandbur.agent.agents.workflows.kinds", "Map"),
    "Parallel": ("sandbur.agent.agents.workflows.kinds", "Parallel"),
    "Sequential": ("sandbur.agent.agents.workflows.kinds", "Sequential"),
    "Vote": ("sandbur.agent.agents.workflows.kinds", "Vote"),
    "Workflow": ("sandbur.agent.agents.workflows.workflow", "Workflow"),
    "retry": ("sandbur.agent.agents.workflows.workflow", "retry"),
    "escalate": ("sandbur.agent.agents.workflows.branch_report", "escalate"),
    "ChildResult": ("sandbur.agent.sdk.runs.result", "ChildResult"),
    "KnowledgeBase": ("sandbur.agent.knowledge.retrieval.knowledge_base", "KnowledgeBase"),
    "Passage": ("sandbur.agent.knowledge.retrieval.passages", "Passage"),
    "Embedder": ("sandbur.agent.knowledge.retrieval.embedding.embedder", "Embedder"),
    "Agent": ("sandbur.agent.sdk.agent", "Agent"),
    "AgentSession": ("sandbur.agent.sdk.session", "AgentSession"),
    "AgentTrial": ("sandbur.agent.sdk.runs.trial_runs", "AgentTrial"),
    "TrialChange": ("sandbur.agent.sdk.runs.trial_runs", "TrialChange"),
    "AsyncSandburPersister": ("sandbur.state.burr.persister", "AsyncSandburPersister"),
    "Audio": ("sandbur.state.conversation.attachments", "Audio"),
    "CallLimit": ("sandbur.agent.extensions.middleware.call_limit", "CallLimit"),
    "CommandEntry": ("sandbur.agent.extensions.extension", "CommandEntry"),
    "Compaction": ("sandbur.agent.runtime.compaction", "Compaction"),
    "Composite": ("sandbur.actions.workspace.backends.composite", "Composite"),
    "ContextFull": ("sandbur.state.errors", "ContextFull"),
    "CredentialsError": ("sandbur.state.errors", "CredentialsError"),
    "DecisionEvaluator": (
        "sandbur.agent.review.evaluation.decisions.evaluator",
        "DecisionEvaluator",
    ),
    "Depends": ("sandbur.actions.tools.functions.injection", "Depends"),
    "Document": ("sandbur.state.conversation.attachments", "Document"),
    "DoneResult": ("sandbur.agent.sdk.runs.result", "DoneResult"),
    "Elicitation": ("sandbur.agent.runtime.tool_servers", "Elicitation"),
    "EventStream": ("sandbur.agent.sdk.runs.stream", "EventStream"),
    "Suite": ("sandbur.agent.review.evaluation.suites.suite", "Suite"),
    "Task": ("sandbur.agent.review.evaluation.suites.task", "Task"),
    "EarlierSession": ("sandbur.agent.review.evaluation.suites.task", "EarlierSession"),
    "Solution": ("sandbur.agent.review.evaluation.suites.task", "Solution"),
    "Metric": ("sandbur.agent.review.evaluation.measures.metrics", "Metric"),
    "JudgeMetric": ("sandbur.agent.review.evaluation.measures.metrics", "JudgeMetric"),
    "Judgement": ("sandbur.agent.review.evaluation.measures.metrics", "Judgement"),
    "measure_judges": ("sandbur.agent.review.evaluation.measures.metrics", "measure_judges"),
    "Evaluator": ("sandbur.agent.review.evaluation.evaluator", "Evaluator"),
    "EvaluationResult": ("sandbur.agent.review.evaluation.measures.result", "EvaluationResult"),
    "EvaluationRun": ("sandbur.agent.review.evaluation.measures.result", "EvaluationRun"),
    "Extension": ("sandbur.agent.extensions.extension", "Extension"),
    "ExtensionRuntime": ("sandbur.agent.runtime.extension_runtime", "ExtensionRuntime"),
    "Flow": ("sandbur.actions.turn.flows.flow", "Flow"),
    "FileBackend": ("sandbur.actions.workspace.backends.backend", "FileBackend"),
    "FormattedEntry": ("sandbur.actions.ports", "FormattedEntry"),
    "Formatter": ("sandbur.actions.ports", "Formatter"),
    "Handoff": ("sandbur.agent.sdk.arguments", "Handoff"),
    "HubMessage": ("sandbur.agent.agents.hub.participant", "HubMessage"),
    "Image": ("sandbur.state.conversation.attachments", "Image"),
    "Limits": ("sandbur.agent.session.run_limits", "Limits"),
    "Memory": ("sandbur.agent.knowledge.memory.memory", "Memory"),
    "MemoryChange": ("sandbur.agent.runtime.memory_store", "MemoryChange"),
    "MemoryStore": ("sandbur.agent.runtime.memory_store", "MemoryStore"),
    "Message": ("sandbur.state.conversation.messages", "Message"),
    "MessageHub": ("sandbur.agent.agents.hub.hub", "MessageHub"),
    "Middleware": ("sandbur.agent.extensions.middleware.middleware", "Middleware"),
    "MiddlewareError": ("sandbur.state.errors", "MiddlewareError"),
    "MiddlewareSession": ("sandbur.agent.extensions.middleware.middleware", "MiddlewareSession"),
    "Model": ("sandbur.actions.ports", "Model"),
    "ModelError": ("sandbur.state.errors", "ModelError"),
    "ModelEvent": ("sandbur.actions.ports", "ModelEvent"),
    "ModelRequest": ("sandbur.actions.ports", "ModelRequest"),
    "ModelRetry": ("sandbur.agent.sdk.runs.rules", "ModelRetry"),
    "ModelRouter": ("sandbur.agent.extensions.middleware.model_router", "ModelRouter"),
    "NextModelCall": ("sandbur.agent.extensions.middleware.middleware", "NextModelCall"),
    "NextToolCall": ("sandbur.agent.extensions.middleware.middleware", "NextToolCall"),
    "Notice": ("sandbur.actions.ports.events", "Notice"),
    "Observer": ("sandbur.agent.session.observers", "Observer"),
    "OpenQuestion": ("sandbur.agent.sdk.question_board", "OpenQuestion"),
    "Overloaded": ("sandbur.state.errors", "Overloaded"),
    "PIIRedaction": ("sandbur.agent.extensions.middleware.pii_redaction", "PIIRedaction"),
    "Plan": ("sandbur.agent.sdk.session_plan", "NotebookPlan"),
    "PlanStep": ("sandbur.agent.sdk.session_plan", "NotebookStep"),
    "SessionPlan": ("sandbur.agent.sdk.session_plan", "SessionPlan"),
    "plan_tools": ("sandbur.agent.review.plans.plan_tool", "plan_tools"),
    "PendingToolCall": ("sandbur.agent.sdk.runs.pending", "PendingToolCall"),
    "ProposedCall": ("sandbur.agent.extensions.middleware.middleware", "ProposedCall"),
    "QuestionBoard": ("sandbur.agent.sdk.question_board", "QuestionBoard"),
    "Render": ("sandbur.actions.ports", "Render"),
    "RecalledFact": ("sandbur.agent.runtime.memory_store", "RecalledFact"),
    "Reply": ("sandbur.actions.ports", "Reply"),
    "Retry": ("sandbur.agent.extensions.middleware.retry_and_timeout", "Retry"),
    "Route": ("sandbur.agent.extensions.middleware.model_router", "Route"),
    "RunContext": ("sandbur.actions.tools.functions.run_context", "RunContext"),
    "RunFailed": ("sandbur.agent.sdk.runs.result", "RunFailed"),
    "RunResult": ("sandbur.agent.sdk.runs.result", "RunResult"),
    "SandburError": ("sandbur.state.errors", "SandburError"),
    "SandburPersister": ("sandbur.state.burr.persister", "SandburPersister"),
    "ServerPrompt": ("sandbur.agent.runtime.tool_servers", "ServerPrompt"),
    "ServerResource": ("sandbur.agent.runtime.tool_servers", "ServerResource"),
    "ServerTool": ("sandbur.agent.runtime.tool_servers", "ServerTool"),
    "SessionAdditions": ("sandbur.agent.runtime.extension_runtime", "SessionAdditions"),
    "SessionHeld": ("sandbur.state.errors", "SessionHeld"),
    "SessionInfo": ("sandbur.agent.sdk.stored_sessions", "SessionInfo"),
    "SessionMemory": ("sandbur.actions.workspace.backends.backend", "SessionMemory"),
    "SessionNotFound": ("sandbur.state.errors", "SessionNotFound"),
    "SessionParked": ("sandbur.state.errors", "SessionParked"),
    "SessionUsage": ("sandbur.agent.sdk.stored_sessions", "SessionUsage"),
    "Setting": ("sandbur.agent.config.setting", "Setting"),
    "SettingReader": ("sandbur.agent.config.setting_reader", "SettingReader"),
    "SlashEntry": ("sandbur.agent.extensions.extension", "SlashEntry"),
    "StoreConnection": ("sandbur.state.databases.servers.requirements", "Connection"),
    "StoreError": ("sandbur.state.errors", "StoreError"),
    "StoreFiles": ("sandbur.actions.workspace.backends.backend", "StoreFiles"),
    "StoreServer": ("sandbur.state.databases.own_stores", "StoreServer"),
    "StoreServerError": ("sandbur.state.databases.servers.server_errors", "ServerError"),
    "TaskComplete": ("sandbur.actions.tools.functions.results", "TaskComplete"),
    "TerminalInput": ("sandbur.ui.terminal.terminal_input", "TerminalInput"),
    "Text": ("sandbur.state.conversation.messages", "Text"),
    "TextDelta": ("sandbur.actions.ports.events", "TextDelta"),
    "Thinking": ("sandbur.state.conversation.messages", "Thinking"),
    "ThinkingDelta": ("sandbur.actions.ports.events", "ThinkingDelta"),
    "TimeLimit": ("sandbur.agent.extensions.middleware.retry_and_timeout", "TimeLimit"),
    "TokenCounter": ("sandbur.actions.ports", "TokenCounter"),
    "Tool": ("sandbur.actions.tools.functions.function_tool", "FunctionTool"),
    "ToolCallRequest": ("sandbur.agent.extensions.middleware.middleware", "ToolCallRequest"),
    "ToolError": ("sandbur.actions.tools.functions.results", "ToolError"),
    "ToolGroups": ("sandbur.agent.runtime.tool_groups", "ToolGroups"),
    "ToolOutcome": ("sandbur.actions.ports", "ToolOutcome"),
    "ToolResult": ("sandbur.state.conversation.messages", "ToolResult"),
    "ToolServers": ("sandbur.agent.runtime.tool_servers", "ToolServers"),
    "ToolSpec": ("sandbur.actions.ports", "ToolSpec"),
    "ToolUse": ("sandbur.state.conversation.messages", "ToolUse"),
    "Unreachable": ("sandbur.state.errors", "Unreachable"),
    "Usage": ("sandbur.state.application", "Usage"),
    "UserAnswer": ("sandbur.actions.ports.user_input", "UserAnswer"),
    "UserCodeError": ("sandbur.state.errors", "UserCodeError"),
    "UserInput": ("sandbur.actions.ports.user_input", "UserInput"),
    "UserQuestion": ("sandbur.actions.ports.user_input", "UserQuestion"),
    "Video": ("sandbur.state.conversation.attachments", "Video"),
    "VerifiableMemoryStore": ("sandbur.agent.runtime.memory_store", "VerifiableMemoryStore"),
    "WireFormat": ("sandbur.actions.ports", "WireFormat"),
    "WorkspaceFolder": ("sandbur.actions.workspace.backends.backend", "WorkspaceFolder"),
    "__version__": ("sandbur.agent.runtime.version", "VERSION"),
    "connect_model": ("sandbur.agent.models.configured_models", "connect_model"),
    "events": ("sandbur.actions.ports.events", ""),
    "fetch_attachment": ("sandbur.actions.tools.fetch_attachment", "fetch_attachment"),
    "file_tools": ("sandbur.actions.tools.files.virtual", "file_tools"),
    "http_tools": ("sandbur.actions.tools.http.documents", "http_tools"),
    "openapi_tools": ("sandbur.actions.tools.http.documents", "openapi_tools"),
    "provider_token_counter": ("sandbur.agent.models.configured_models", "provider_token_counter"),
    "python_tool": ("sandbur.actions.tools.python.tool", "python_tool"),
    "register_store": ("sandbur.state.databases.own_stores", "register_store"),
    "flow": ("sandbur.actions.turn.flows.flow", "flow"),
    "tool": ("sandbur.actions.tools.functions.decorator", "tool"),
    "web_tools": ("sandbur.agent.sdk.shipped_tools", "web_tools"),
    "workspace_tools": ("sandbur.agent.sdk.shipped_tools", "workspace_tools"),
}
"""Public name -> module and name in the module; an empty name stands for the module itself."""


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    found = _import_without_collections(module)
    value = globals()[name] = getattr(found, attribute) if attribute else found
    return value


def _import_without_collections(module: str) -> "Any":
    """Import a module while no garbage is collected: nearly all that an import makes stays.

    Afterwards the program's collector is as it was. Nothing is frozen: that is for the program to decide.
    """
    if not gc.isenabled():
        return import_module(module)
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.enable()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if __name__ == "__main__":
    import sys

    sys.exit(import_module("sandbur.ui.cli.main").main())
