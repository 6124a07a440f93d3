"""What a run was judged by and limited to, as its trace records it: a later replay needs the very same."""

import hashlib
import json
from typing import TYPE_CHECKING

from ...state.session import SessionSettings
from ...state.trace import Conditions

if TYPE_CHECKING:
    from ...actions.ports import Ports, ToolSpec

_DIGEST_CHARS = 12


def conditions_of(settings: SessionSettings, ports: "Ports") -> Conditions:
    return Conditions(
        allow=settings.allow,
        deny=settings.deny,
        ask=settings.ask,
        catastrophic=settings.catastrophic,
        cwd=settings.cwd,
        add_dirs=settings.add_dirs,
        context_window=ports.model.context_window,
        compress_at=ports.compress_at,
        tools={spec.name: tool_digest(spec) for spec in ports.tool_specs},
    )


def tool_digest(spec: "ToolSpec") -> str:
    """Return a short digest of what a model is told about a tool."""
    described = json.dumps([spec.name, spec.description, dict(spec.parameters)])
    return hashlib.sha256(described.encode()).hexdigest()[:_DIGEST_CHARS]
