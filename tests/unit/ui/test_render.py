"""What a person sees of a run."""

import time
from io import StringIO

from rich.console import Console
from screen import Screen

from sandbur.actions.events import (
    ErrorRaised,
    Event,
    MessageAdded,
    Notice,
    PlanChanged,
    RunFinished,
    StepChanged,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolRequested,
    ToolStarted,
    UsageChanged,
)
from sandbur.state.application import Usage, VibeStep
from sandbur.ui.terminal.render import Renderer

PLAN = PlanChanged(
    (VibeStep(step_id="1", description="measure"), VibeStep(step_id="2", description="repair"))
)
CALL = ToolRequested("c1", "run_shell_command", '{"command": "df -h"}')


def renderer(terminal: bool = False, answers: bool = True, **options: object) -> tuple[Renderer, StringIO]:
    out = StringIO()
    console = Console(
        file=out, width=80, height=24, force_terminal=terminal, markup=False, highlight=False, emoji=False,
        _environ={"TERM": "xterm"}, **options,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    return Renderer(console, answers=answers), out


def shown(*events: Event, answers: bool = True) -> str:
    view, out = renderer(answers=answers)
    for event in events:
        view.show(event)
    return out.getvalue()


def ended(**changes: object) -> RunFinished:
    fields: dict[str, object] = {"status": "done", "exit_code": 0, "result": None, "workflow_mode": "chat"}
    return RunFinished(session_id="s", **{**fields, **changes})  # pyright: ignore[reportArgumentType]


def test_an_answer_is_shown_once() -> None:
    text = shown(
        TextDelta("It is "), TextDelta("**done**."), MessageAdded("assistant", "It is **done**."),
        ended(result="It is **done**."),
    )  # fmt: skip
    assert text.count("It is done.") == 1


def test_an_answer_of_an_earlier_run_is_shown_when_nothing_was_left_to_do() -> None:
    assert "forty-two" in shown(ended(result="forty-two"))


def test_without_answers_only_the_work_is_shown() -> None:
    text = shown(CALL, ToolStarted("c1", "x"), TextDelta("secret"), ended(result="secret"), answers=False)
    assert "secret" not in text
    assert "df -h" in text


def test_a_call_leaves_one_line_with_its_outcome_and_duration() -> None:
    view, out = renderer(terminal=True, color_system=None)
    view.show(CALL)
    view.show(ToolStarted("c1", "run_shell_command"))
    view.show(ToolFinished("c1", "run_shell_command", "error", "boom", 1234))
    lines = [line for line in out.getvalue().splitlines() if "df -h" in line]
    assert len(lines) == 1
    assert "error" in lines[0]
    assert "1.2s" in lines[0]
    assert "boom" in out.getvalue()


def test_a_running_call_shows_elapsed_time_and_its_last_output_in_place() -> None:
    view, out = renderer(terminal=True)
    view.show(CALL)
    view.show(ToolStarted("c1", "run_shell_command"))
    view.show(ToolOutput("c1", "".join(f"line {n}\n" for n in range(100))))
    view.tick()
    time.sleep(0.6)
    first = out.getvalue()
    view.tick()
    second = out.getvalue()[len(first) :]
    assert "line 99" in first
    assert "line 90" not in first
    assert "line" not in second
    screen = Screen()
    screen.feed(out.getvalue())
    assert "df -h │ line 99 0." in screen.text[0]
    assert screen.text[0].endswith(("0.6s", "0.7s", "0.8s"))
    assert screen.text[1:] == []
    view.toggle_output()
    screen.feed(out.getvalue()[len(first + second) :])
    assert screen.text[2:] == [f"  │ line {number}" for number in range(88, 100)]


def test_the_live_lines_are_gone_at_the_end() -> None:
    view, out = renderer(terminal=True)
    view.show(TextDelta("hello"))
    view.tick()
    view.show(MessageAdded("assistant", "hello"))
    view.show(ended(result="hello"))
    screen = Screen()
    screen.feed(out.getvalue())
    assert screen.text == ["hello"]


def test_nothing_is_redrawn_where_lines_cannot_be_replaced() -> None:
    view, out = renderer()
    view.show(CALL)
    view.show(ToolStarted("c1", "run_shell_command"))
    view.tick()
    assert "\x1b" not in out.getvalue()
    assert out.getvalue().count("df -h") == 1


def test_a_plan_is_a_checklist_and_its_steps_count() -> None:
    text = shown(
        PLAN, StepChanged("1", "in_progress"), StepChanged("1", "completed", "measured: 12 ms"),
        StepChanged("2", "in_progress"), StepChanged("2", "failed", "no rights"),
    )  # fmt: skip
    assert "1. measure" in text
    assert "Step 1/2 · measure" in text
    assert "✓ Step 1/2: measured: 12 ms" in text
    assert "✗ Step 2/2: no rights" in text


def test_the_runtime_s_own_notes_are_not_shown_as_answers() -> None:
    assert "Step 1 completed" not in shown(MessageAdded("assistant", "Step 1 completed: x"))


def test_text_that_was_cut_off_stays_visible_before_the_retry() -> None:
    text = shown(TextDelta("half an ans"), Notice("The stream was cut; trying again."), TextDelta("whole"))
    assert text.index("half an ans") < text.index("trying again")


def test_a_difference_is_shown_in_colours() -> None:
    view, out = renderer(terminal=True, color_system="standard")
    diff = "--- a\n+++ a\n@@ -1 +1 @@\n-old\n+new\n"
    view.show(ToolFinished("c1", "edit_file", "ok", f"Edited a\n{diff}", 3))
    assert "\x1b[31m  │   1     -old" in out.getvalue()
    assert "\x1b[32m  │       1 +new" in out.getvalue()


def test_hostile_text_cannot_steer_the_terminal() -> None:
    evil = "\x1b]52;c;eA==\x07\x1b[2J\x9b31mx\u202e"
    text = shown(
        ToolRequested("c1", f"tool{evil}", f'{{"command": "{evil}"}}'),
        ToolStarted("c1", "t"),
        ToolFinished("c1", "t", "error", evil, 1),
        TextDelta(evil), MessageAdded("assistant", evil), Notice(evil),
        PlanChanged((VibeStep(step_id=evil, description=evil),)), StepChanged(evil, "failed", evil),
        ended(status="error", exit_code=1, error=ErrorRaised("x", evil), hint=evil),
    )  # fmt: skip
    assert not [char for char in text if ord(char) < 32 and char != "\n"]
    assert "\x9b" not in text
    assert "\u202e" not in text


def test_a_call_that_an_earlier_process_asked_for_cannot_steer_the_terminal_either() -> None:
    evil = "t\x1b]52;c;eA==\x07\x1b[2J\u202e"
    text = shown(ToolStarted("c1", evil), ToolFinished("c1", evil, "ok", "", 1))
    assert "\x1b" not in text.replace("\\x1b", "")
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "<U+202E>" in text


def test_rich_markup_in_untrusted_text_is_shown_as_written() -> None:
    assert "[/x] [red]" in shown(Notice("[/x] [red] :smile:"))
    assert ":smile:" in shown(ToolFinished("c", "run_shell_command", "ok", "[/x] :smile:", 1))


def test_an_error_is_followed_by_what_to_do() -> None:
    text = shown(
        ended(status="error", exit_code=1, error=ErrorRaised("model", "It broke."), hint="Try again.")
    )
    assert text.index("It broke.") < text.index("Try again.")


def test_unknown_cost_is_called_unknown() -> None:
    usage = Usage(llm_calls=1, input_tokens=None, output_tokens=2, cost_usd=None)
    text = shown(UsageChanged(usage, usage), ended(usage=usage))
    assert "cost unknown" in text
    assert "? tokens in" in text


def test_usage_is_told_once_and_not_again_after_a_command() -> None:
    usage = Usage(llm_calls=1)
    text = shown(UsageChanged(usage, usage), ended(usage=usage), Notice("commands: ..."), ended(usage=usage))
    assert text.count("1 model call") == 1


def test_a_tiny_terminal_is_no_problem() -> None:
    for width, height in ((1, 1), (2, 2), (9, 5)):
        view, _ = renderer(terminal=True)
        view.console.size = (width, height)  # pyright: ignore[reportAttributeAccessIssue]
        for event in (
            PLAN,
            StepChanged("1", "in_progress"),
            CALL,
            ToolStarted("c1", "t"),
            TextDelta("hello\n"),
        ):
            view.show(event)
            view.tick()
        view.show(ended(result="hello"))


def test_an_ascii_terminal_gets_ascii_signs() -> None:
    class Ascii(StringIO):
        encoding = "ascii"

    out = Ascii()
    view = Renderer(Console(file=out, width=80, markup=False, emoji=False), answers=True)
    for event in (PLAN, CALL, ToolStarted("c1", "t"), ToolFinished("c1", "t", "ok", "done", 5)):
        view.show(event)
    assert out.getvalue().isascii()
    assert "ok run_shell_command df -h" in out.getvalue()
