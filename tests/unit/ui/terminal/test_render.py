"""What a person sees of a run."""

import os
import time
from collections.abc import Iterator
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console
from support.screens.screen import Screen

from sandbur.actions.ports.events import (
    ErrorRaised,
    Event,
    MessageAdded,
    Notice,
    PlanChanged,
    RunFinished,
    StepChanged,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolRequested,
    ToolStarted,
    UsageChanged,
)
from sandbur.state.application import Usage, VibeStep
from sandbur.ui.terminal.render import Renderer
from sandbur.ui.terminal.status import StatusFacts
from sandbur.ui.terminal.text.theme import LOOK, appear
from sandbur.ui.terminal.view.footer import LiveRow

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


def test_a_run_that_waits_leaves_no_live_row_when_others_print_below_it() -> None:
    view, out = renderer(terminal=True, answers=False, color_system=None)
    view.begin()
    view.tick()
    view.show(ended(status="needs_decision", exit_code=3))
    out.write("Outcome unknown: c1\n")
    screen = Screen()
    assert "working" in out.getvalue()
    screen.feed(out.getvalue())
    assert screen.text == ["Outcome unknown: c1"]


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


def rows_of(*events: Event) -> list[str]:
    return [row.rstrip() for row in shown(*events).splitlines()]


def test_one_empty_line_stands_between_the_work_and_the_answer() -> None:
    call = (
        CALL,
        ToolStarted("c1", "run_shell_command"),
        ToolFinished("c1", "run_shell_command", "ok", "90 %", 1),
    )
    rows = rows_of(*call, *call, TextDelta("It is "), TextDelta("full."), ended())
    answer = rows.index("It is full.")
    assert rows[answer - 1] == ""
    assert "" not in rows[: answer - 1]
    rows = rows_of(ThinkingDelta("why"), TextDelta("Because."), ended())
    assert [row[:8] for row in rows[:3]] == ["thought ", "", "Because."]
    rows = rows_of(*call, ended(result="It is full."))
    assert rows[rows.index("It is full.") - 1] == ""
    assert rows_of(TextDelta("At once."), ended())[0] == "At once."


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
    assert "ok shell df -h" in out.getvalue()


def test_thinking_is_one_line_that_can_be_brought_back() -> None:
    view, out = renderer(terminal=True, color_system=None)
    view.show(ThinkingDelta("first this\n"))
    view.tick()
    assert "thinking 0s" in out.getvalue()
    view.show(ThinkingDelta("then that"))
    view.show(TextDelta("Done."))
    view.show(MessageAdded("assistant", "Done."))
    screen = Screen()
    screen.feed(out.getvalue())
    assert screen.text[0].startswith("thought for ")
    assert "first this" not in out.getvalue()
    assert view.expand_last() == 1
    assert "first this\nthen that" in out.getvalue()


def test_thinking_is_shown_as_it_comes_where_that_is_wanted() -> None:
    view, out = renderer()
    view.show(ThinkingDelta("first this\nthen"))
    view.toggle_thinking()
    assert "first this" in out.getvalue()
    view.show(ThinkingDelta(" that\n"))
    assert "then that" in out.getvalue()


def finished(content: str, number: int = 1, tool: str = "run_shell_command") -> ToolFinished:
    return ToolFinished(f"c{number}", tool, "ok", content, 5)


def test_long_output_is_folded_and_expanded_whole() -> None:
    view, out = renderer(terminal=True, color_system=None)
    view.show(finished("\n".join(f"line {n}" for n in range(234)) + "\n" + "x" * 200))
    assert "+ 231 lines, Ctrl-O or /expand" in out.getvalue()
    assert "line 230\n" not in out.getvalue()
    assert max(len(line) for line in out.getvalue().splitlines()) <= 80
    view.expand_last()
    assert "line 0\nline 1\n" in out.getvalue()
    assert "x" * 200 in out.getvalue()


def test_several_outputs_are_expanded_in_their_order() -> None:
    view, out = renderer()
    for number in range(3):
        view.show(finished(f"output {number}\n" * 9, number))
    before = len(out.getvalue())
    assert view.expand_last(2) == 2
    text = out.getvalue()[before:]
    assert "output 0" not in text
    assert text.index("output 1") < text.index("output 2")


def test_what_is_kept_of_folded_output_has_a_bound() -> None:
    view, out = renderer()
    for number in range(30):
        view.show(finished("y" * 500_000, number))
    before = len(out.getvalue())
    assert view.expand_last(1000) == 4
    assert 2_000_000 <= len(out.getvalue()) - before < 2_001_000


def test_of_very_many_lines_the_first_and_the_last_are_expanded() -> None:
    view, out = renderer()
    view.show(finished("\n".join(f"line {n}" for n in range(5001))))
    view.expand_last()
    assert "\nline 999\n... 3,001 lines left out here ...\nline 4001\n" in out.getvalue()


def test_after_a_toggle_output_is_shown_whole_and_after_the_next_folded_again() -> None:
    view, out = renderer()
    view.show(finished("old\n" * 9))
    view.toggle_output()
    assert out.getvalue().count("\nold") == 9
    view.show(finished("new\n" * 9))
    assert out.getvalue().count("new") == 9
    view.toggle_output()
    view.show(finished("last\n" * 9))
    assert out.getvalue().count("last") == 4


def on_screen(view: Renderer, out: StringIO) -> list[str]:
    view.tick()
    screen = Screen(view.console.width, view.console.height)
    screen.feed(out.getvalue())
    return screen.text


def test_a_plan_is_live_while_it_goes_on_and_printed_once_at_its_end() -> None:
    view, out = renderer(terminal=True, color_system=None)
    used = Usage(llm_calls=1, input_tokens=1500, output_tokens=20)
    view.show(PLAN)
    view.show(StepChanged("1", "in_progress"))
    view.show(UsageChanged(used, used))
    text = on_screen(view, out)
    assert text[0] == "Plan  0/2"
    assert text[1].startswith("  ▶ 1. measure  0.0s · 1.5k tokens")
    assert text[2] == "  ○ 2. repair"
    for step in ("1", "2"):
        view.show(StepChanged(step, "in_progress"))
        view.show(StepChanged(step, "completed", "well"))
    text = on_screen(view, out)
    assert text.count("Plan") == 1
    assert "  ✓ 1. measure  0.0s · 1.5k tokens" in text
    assert not any(line.startswith("Plan  ") for line in text)


def test_of_a_long_plan_the_neighbourhood_of_the_step_is_shown() -> None:
    view, out = renderer(terminal=True, color_system=None)
    view.show(PlanChanged(tuple(VibeStep(step_id=str(n), description=f"do {n}") for n in range(1, 31))))
    for number in range(1, 20):
        view.show(StepChanged(str(number), "completed", "well"))
    view.show(StepChanged("20", "in_progress"))
    text = on_screen(view, out)[-12:]
    assert text[0] == "Plan  19/30"
    assert "17 before" in text[1]
    assert text[2] == "  ✓ 18. do 18"
    assert text[4].startswith("  ▶ 20. do 20")
    assert "5 more" in text[10]


def test_a_plan_that_is_not_wanted_is_one_row() -> None:
    view, out = renderer(terminal=True, color_system=None)
    view.show(PLAN)
    view.show(StepChanged("1", "in_progress"))
    view.tick()
    view.toggle_plan()
    assert on_screen(view, out)[-1] == "Step 1/2 · measure"


def test_before_the_first_decision_in_a_plan_the_plan_is_printed() -> None:
    view, out = renderer(terminal=True, color_system=None)
    view.show(PLAN)
    view.show(StepChanged("1", "in_progress"))
    view.tick()
    view.show(ended(status="needs_approval", exit_code=2))
    screen = Screen()
    screen.feed(out.getvalue())
    assert [line[:16] for line in screen.text] == ["Plan", "  ▶ 1. measure  ", "  ○ 2. repair"]


def test_parallel_calls_have_a_line_each_and_very_many_are_counted() -> None:
    view, out = renderer(terminal=True, color_system=None)
    for number in range(9):
        view.show(ToolRequested(f"c{number}", "read_file", f'{{"path": "{number}.txt"}}'))
        view.show(ToolStarted(f"c{number}", "read_file"))
    text = on_screen(view, out)
    assert [line for line in text if "5.txt" in line]
    assert text[-1] == "  and 3 more calls"


PYTHON = ToolRequested("c1", "execute_python", '{"code": "look()"}')


def nested(number: int) -> tuple[Event, ...]:
    call_id = f"c1/{number}"
    return (
        ToolRequested(call_id, "look", f'{{"path": "{number}.txt"}}'),
        ToolStarted(call_id, "look"),
        ToolFinished(call_id, "look", "ok", "seen", 5),
    )


def test_calls_of_a_call_are_printed_below_it() -> None:
    view, out = renderer(terminal=True, color_system=None)
    for event in (PYTHON, ToolStarted("c1", "execute_python"), *nested(1), *nested(2)):
        view.show(event)
    assert [line for line in on_screen(view, out) if "execute_python look()" in line and "2 calls" in line]
    view.show(ToolFinished("c1", "execute_python", "ok", "all", 9))
    view.show(ended())
    screen = Screen()
    screen.feed(out.getvalue())
    assert [line.split("  0.0s")[0] for line in screen.text] == [
        "✓ execute_python look()",
        "  ✓ look 1.txt",
        "  ✓ look 2.txt",
        "  │ all",
    ]


def test_calls_of_a_call_are_printed_below_it_if_the_run_waits_and_of_many_only_the_first() -> None:
    view, out = renderer(terminal=True, color_system=None)
    for event in (PYTHON, ToolStarted("c1", "execute_python")):
        view.show(event)
    for number in range(25):
        for event in nested(number):
            view.show(event)
    view.show(ended(status="needs_approval", exit_code=3))
    screen = Screen()
    screen.feed(out.getvalue())
    assert screen.text[0].endswith("execute_python look()  waits")
    assert [line.split("  0.0s")[0] for line in screen.text[1:]] == [
        *(f"  ✓ look {number}.txt" for number in range(20)),
        "  and 5 more calls",
    ]


def test_an_approved_call_of_a_call_is_printed_with_it() -> None:
    """It runs alone, before the code that made it runs again."""
    view, out = renderer(terminal=True, color_system=None)
    view.show(PYTHON)
    for event in (*nested(1), ToolStarted("c1", "execute_python"), *nested(2)):
        view.show(event)
    view.show(ToolFinished("c1", "execute_python", "ok", "all", 9))
    view.show(ended())
    screen = Screen()
    screen.feed(out.getvalue())
    assert [line.split("  0.0s")[0] for line in screen.text] == [
        "✓ execute_python look()",
        "  ✓ look 1.txt",
        "  ✓ look 2.txt",
        "  │ all",
    ]


def test_without_live_rows_calls_of_a_call_are_indented_below_its_start() -> None:
    events = (PYTHON, ToolStarted("c1", "execute_python"), *nested(1))
    text = shown(*events, ToolFinished("c1", "execute_python", "ok", "all", 9))
    assert [line.split("  0.0s")[0] for line in text.splitlines()] == [
        "▶ execute_python look()",
        "  ▶ look 1.txt",
        "  ✓ look 1.txt",
        "✓ execute_python look()",
        "  │ all",
    ]


def test_what_is_being_typed_and_the_status_stand_below_the_work() -> None:
    view, out = renderer(terminal=True, color_system=None)
    view.status = StatusFacts(mode="yolo", model="demo", context_window=1000)
    view.footer.set_section("input", lambda _: ["> also this"])
    used = Usage(llm_calls=1, input_tokens=90, output_tokens=10)
    view.show(UsageChanged(used, used))
    text = on_screen(view, out)
    assert text[-2] == "> also this"
    assert text[-1].startswith("YOLO: nothing is asked · demo · ctx 10% · 100 tokens")
    view.footer.set_section("input", lambda _: ["> also this one"])
    view.footer.refresh()
    screen = Screen()
    screen.feed(out.getvalue())
    assert screen.text[-2] == "> also this one"


def test_a_smaller_window_leaves_no_stale_rows() -> None:
    view, out = renderer(terminal=True, color_system=None)
    view.status = StatusFacts(mode="interactive", model="a-model-of-a-name")
    view.show(TextDelta("word " * 30))
    view.tick()
    # The terminal has wrapped the rows anew by the time it says so.
    view.console.size = (40, 24)  # pyright: ignore[reportAttributeAccessIssue]
    before = len(out.getvalue())
    view.tick()
    assert out.getvalue()[before:].startswith("\r\x1b[")
    assert "\x1b[J" in out.getvalue()[before:]


def test_without_a_run_a_refresh_draws_nothing() -> None:
    view, out = renderer(terminal=True)
    view.footer.refresh()
    assert out.getvalue() == ""


@pytest.fixture
def plain_look() -> Iterator[None]:
    term = os.environ.get("TERM")
    appear("dark", True)
    yield
    LOOK.is_plain = False
    if term is None:
        del os.environ["TERM"]
    else:
        os.environ["TERM"] = term


@pytest.mark.usefixtures("plain_look")
def test_for_a_screen_reader_there_are_words_and_line_ends_only() -> None:
    out = StringIO()
    console = Console(file=out, width=80, force_terminal=True, markup=False, highlight=False, emoji=False)
    view = Renderer(console, answers=True)
    view.status = StatusFacts(mode="interactive", model="demo")
    used = Usage(llm_calls=1, input_tokens=5, output_tokens=5)
    events: list[Event] = [
        PLAN, StepChanged("1", "in_progress"), CALL, ToolStarted("c1", "x"), ToolOutput("c1", "a\n"),
        ToolFinished("c1", "run_shell_command", "ok", "a", 1), StepChanged("1", "completed", "well"),
        TextDelta("# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"), MessageAdded("assistant", "x"),
        UsageChanged(used, used), ended(usage=used),
    ]  # fmt: skip
    for event in events:
        view.show(event)
        view.tick()
        view.footer.refresh()
    assert out.getvalue().isascii()
    assert not [char for char in out.getvalue() if char < " " and char != "\n"]
    assert "running: shell df -h\n" in out.getvalue()
    assert "done: shell df -h" in out.getvalue()
    assert "to do: 2. repair" in out.getvalue()
    assert "| 1 | 2 |" in out.getvalue()
    assert "interactive - demo - 10 tokens" in out.getvalue()


def test_without_colours_bold_and_dim_letters_stay_and_another_theme_brings_colours_back() -> None:
    view, out = renderer(terminal=True, color_system="standard")
    view.use_theme("none")
    view.lines([("wrong", "a"), ("heading", "b"), ("yellow", "c")])
    assert out.getvalue() == "a\n\x1b[1mb\x1b[0m\nc\n"
    view.use_theme("light")
    view.lines([("wrong", "d")])
    assert "\x1b[31md" in out.getvalue()


@pytest.mark.parametrize("width", [30, 40, 80, 160])
@pytest.mark.parametrize("output", ["ok", "the last line that it has written, which is long, too " * 5])
def test_a_running_command_that_is_longer_than_its_row_leaves_half_of_it_to_its_output(
    width: int, output: str
) -> None:
    console = Console(file=StringIO(), width=width)
    row = LiveRow("⠋ " + "a long command " * 20, " 2.5s", "busy", "…", f" │ {output}")
    with console.capture() as capture:
        console.print(row, end="")
    shown = capture.get().rstrip("\n")
    command, found, rest = shown.partition("│")
    assert cell_len(shown) <= width
    assert found
    assert rest.startswith(f" {output[:5]}")
    assert rest.endswith(" 2.5s")
    assert "a long" in command
    assert len(command) <= (width + 1) // 2 or output == "ok"


def test_a_command_that_wrote_nothing_has_the_whole_row() -> None:
    console = Console(file=StringIO(), width=60)
    with console.capture() as capture:
        console.print(LiveRow("⠋ " + "a long command " * 20, " 2.5s", "busy", "…"), end="")
    assert cell_len(capture.get()) >= 59


def test_a_plan_like_an_earlier_one_has_times_and_tokens_of_its_own() -> None:
    view, out = renderer(terminal=True)
    for _ in range(2):
        view.show(PLAN)
        for number in "12":
            view.show(StepChanged(number, "in_progress"))
            view.show(
                UsageChanged(
                    Usage(input_tokens=700, output_tokens=70), Usage(input_tokens=700, output_tokens=70)
                )
            )
            view.show(StepChanged(number, "completed", "good"))
        view.show(ended())
    screen = Screen(80, 60)
    screen.feed(out.getvalue())
    ends = [line for line in screen.text if "1. measure" in line]
    assert len(ends) == 2
    assert all("770 tokens" in line for line in ends)
