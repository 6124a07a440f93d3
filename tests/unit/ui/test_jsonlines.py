"""The shapes of the JSON outputs."""

import json

import pytest

from sandbur.actions.ports.events import (
    ApprovalNeeded,
    ErrorRaised,
    MessageAdded,
    Notice,
    PendingDecision,
    PlanChanged,
    RunFinished,
    RunStarted,
    StepChanged,
    StepOutcome,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolRequested,
    ToolStarted,
    UsageChanged,
)
from sandbur.state.application import Usage, VibeStep
from sandbur.state.calls import PendingCall
from sandbur.state.errors import CredentialsError
from sandbur.ui.headless.json_output import (
    arguments_object,
    encode,
    make_failure,
    result_object,
    stream_object,
)

USAGE_KEYS = [
    "llm_calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd",
]  # fmt: skip


def test_the_result_has_the_keys_of_the_contract_in_their_order() -> None:
    result = result_object(
        RunFinished(
            session_id="s",
            status="needs_approval",
            exit_code=3,
            result=None,
            workflow_mode="vibe",
            steps=(StepOutcome("1", "look", "completed", "seen"),),
            pending=(PendingDecision("c1", "run_shell_command", '{"command": "ls"}', "approval", "asks"),),
            usage=Usage(llm_calls=2, cost_usd=None),
            duration_ms=12,
            error=ErrorRaised("model", "it broke"),
            hint="try again",
        )
    )
    assert list(result) == [
        "type", "session_id", "status", "exit_code", "result", "workflow_mode", "steps", "pending", "usage",
        "duration_ms", "error",
    ]  # fmt: skip
    assert result["steps"] == [
        {"step_id": "1", "description": "look", "status": "completed", "summary": "seen"}
    ]
    assert result["pending"] == [
        {
            "call_id": "c1",
            "tool": "run_shell_command",
            "arguments": {"command": "ls"},
            "kind": "approval",
            "reason": "asks",
        }
    ]
    assert list(result["usage"]) == USAGE_KEYS
    assert result["usage"]["cost_usd"] is None
    assert result["error"] == {"code": "model", "message": "it broke"}


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (RunStarted("s", "m", "yolo", "/w", "1"),
         {"type": "init", "model": "m", "mode": "yolo", "cwd": "/w", "version": "1", "sandbox": "off"}),
        (TextDelta("a"), {"type": "text", "delta": "a"}),
        (TextDelta("a", "2"), {"type": "text", "delta": "a", "step_id": "2"}),
        (ThinkingDelta("a"), {"type": "thinking", "delta": "a"}),
        (MessageAdded("assistant", "a"), {"type": "message", "role": "assistant", "content": "a"}),
        (ToolRequested("c", "t", '{"a": 1}', "2"),
         {"type": "tool_use", "call_id": "c", "tool": "t", "arguments": {"a": 1}, "step_id": "2"}),
        (ToolFinished("c", "t", "ok", "out", 3),
         {"type": "tool_result", "call_id": "c", "tool": "t", "outcome": "ok", "content": "out",
          "duration_ms": 3}),
        (PlanChanged((VibeStep(step_id="1", description="d"),)),
         {"type": "plan", "steps": [{"step_id": "1", "description": "d", "status": "pending",
                                     "summary": ""}]}),
        (StepChanged("1", "in_progress"), {"type": "step", "step_id": "1", "status": "in_progress"}),
        (StepChanged("1", "failed", "no"),
         {"type": "step", "step_id": "1", "status": "failed", "summary": "no"}),
        (ApprovalNeeded((PendingCall(call_id="c", tool="t", arguments="{}", reason="r"),)),
         {"type": "approval", "pending": [{"call_id": "c", "tool": "t", "arguments": {},
                                           "kind": "approval", "reason": "r"}]}),
        (UsageChanged(Usage(llm_calls=1), Usage()),
         {"type": "usage", "llm_calls": 1, "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0,
          "cache_write_tokens": 0, "cost_usd": 0.0}),
        (Notice("n"), {"type": "notice", "message": "n"}),
        (ErrorRaised("c", "m"), {"type": "error", "code": "c", "message": "m"}),
    ],
)  # fmt: skip
def test_a_stream_line_has_the_keys_of_the_contract(event: object, line: dict[str, object]) -> None:
    assert stream_object(event) == line  # pyright: ignore[reportArgumentType]
    assert list(stream_object(event) or {}) == list(line)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("event", [ToolStarted("c", "t"), ToolOutput("c", "x")])
def test_live_output_is_no_stream_line(event: ToolStarted | ToolOutput) -> None:
    assert stream_object(event) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[1]",
        "3",
        "null",
        '{"a": NaN}',
        '{"a": 1e999}',
        "[" * 99_999,
        '{"a":' + "9" * 5000 + "}",
    ],
    ids=["empty", "words", "list", "number", "null", "nan", "infinity", "deep", "huge number"],
)
def test_arguments_that_are_no_json_object_stay_text(text: str) -> None:
    assert arguments_object(text) == text
    encode({"arguments": arguments_object(text)})


def test_every_line_is_ascii_and_comes_back_unchanged() -> None:
    text = "é\u202e\x1b[31m\ud800\x00"
    line = encode({"delta": text})
    assert line.isascii()
    assert "\x1b" not in line
    assert json.loads(line)["delta"] == text


def test_a_failure_before_the_session_is_a_result_too() -> None:
    result = result_object(make_failure(CredentialsError("No key.", "Set one.")))
    assert (result["session_id"], result["status"], result["exit_code"]) == (None, "error", 41)
    assert result["error"] == {"code": "credentials", "message": "No key. Set one."}
