"""The chat in a real terminal, with the shipped demo model and real commands."""

import re
import shlex
import time

from support.screens.tmux_window import ASKS, DEAF_S, Terminal, wait


def test_a_command_runs_after_approval_and_its_answer_is_shown(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run echo $((7000000+42))")
    screen = terminal.see(ASKS)
    assert "$ echo $((7000000+42))" in screen
    assert "7000042" not in screen
    time.sleep(DEAF_S)
    terminal.keys("y")
    screen = terminal.see("exit 0")
    assert "❯ yes, once" in screen
    assert "7000042" in screen
    terminal.see("model calls")


def test_a_denied_command_does_not_run_and_the_model_reads_why(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.keys("r")
    terminal.see("Reason:")
    terminal.type("not in this folder")
    terminal.see("Denied by the user: not in this folder.")
    assert not (terminal.folder / "made").exists()


def test_a_sentence_typed_at_the_question_is_a_no_with_this_reason(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.type("a word: what does this do?")
    terminal.see("Denied by the user: a word: what does this do?")
    terminal.see("❯", after="model calls")
    terminal.type("run touch made")
    terminal.see(ASKS, after="model calls")
    assert not (terminal.folder / "made").exists()


def test_a_mode_typed_at_the_question_judges_the_call_again(terminal: Terminal) -> None:
    terminal.start(EDITOR="touch edited; false")
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.type("/help")
    terminal.see("go back to an earlier step")
    terminal.see(ASKS, after="go back to an earlier step")
    time.sleep(DEAF_S)
    assert not (terminal.folder / "made").exists()
    terminal.type("/mode yolo")
    terminal.see("Mode: yolo")
    terminal.see("exit 0", after="Mode: yolo")
    terminal.see("yolo ❯", after="model calls")
    assert (terminal.folder / "made").exists()


def test_exit_typed_at_the_question_leaves_it_open(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.type("/exit")
    screen = terminal.see("exit=0")
    assert "Resume with: sandbur -r " in screen
    terminal.close()
    terminal.start("-c")
    terminal.see(ASKS)
    assert not (terminal.folder / "made").exists()


def test_a_chat_in_memory_says_that_it_ends_with_the_process(terminal: Terminal) -> None:
    terminal.start(SANDBUR_STORE="memory:")
    terminal.see("interactive · demo")
    terminal.type("hello")
    terminal.see("interactive · demo", after="❯ hello")
    terminal.type("/exit")
    screen = terminal.see("exit=0")
    assert "The session ends with this process" in screen
    assert "Resume with" not in screen


def test_a_rewind_typed_at_the_question_can_be_left_and_the_question_returns(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.type("/rewind")
    terminal.see("type to filter")
    terminal.keys("C-c")
    terminal.see(ASKS, after="❯ /rewind")
    time.sleep(DEAF_S)
    terminal.type("/rewind 0")
    terminal.see("Bring back what? [")
    time.sleep(DEAF_S)
    terminal.keys("c")
    terminal.see("❯ run touch made", after="The chat continues in")


def test_escape_leaves_the_question_at_once(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    took: list[float] = []
    while len(took) < 4 and min(took, default=2.0) > 0.9:
        terminal.see(ASKS)
        time.sleep(DEAF_S)
        terminal.keys("Up", "Left")
        began = time.monotonic()
        terminal.keys("Escape")
        wait(lambda: ASKS not in terminal.screen(), 60, terminal.screen)
        took.append(time.monotonic() - began)
        terminal.see("❯", after="Nothing is lost")
        terminal.keys("Enter")
    assert min(took) <= 0.9
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.type("/help")
    terminal.see("go back to an earlier step")


def test_always_is_asked_once(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch one")
    answered(terminal, ASKS, "a")
    answered(terminal, "Always what? [", "x")
    shown = terminal.see("Add it? [s/p/u]")
    assert "run_shell_command(touch one)" in shown.partition("From now on this runs without a question")[2]
    assert not (terminal.folder / "one").exists()
    answered(terminal, "Add it? [", "s")
    terminal.see("exit 0")
    terminal.see("❯", after="model calls")
    (terminal.folder / "one").unlink()
    terminal.type("run touch one")
    wait((terminal.folder / "one").exists, 5, terminal.screen)
    assert terminal.screen().count("yes, once") == 1
    assert not (terminal.folder / ".sandbur").exists()


def test_always_for_good_holds_in_the_next_chat(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch one")
    answered(terminal, ASKS, "a")
    answered(terminal, "Always what? [", "p")
    answered(terminal, "Add it? [", "p")
    terminal.see("Enter confirms")
    assert not (terminal.folder / ".sandbur").exists()
    terminal.keys("Enter")
    terminal.see("Saved in")
    terminal.see("exit 0")
    kept = terminal.folder / ".sandbur/config.toml"
    assert kept.read_text() == 'allow = ["run_shell_command(touch one *)"]\n'
    terminal.close()
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch one two")
    wait((terminal.folder / "two").exists, 60, terminal.screen)
    assert ASKS not in terminal.screen()


def test_words_typed_behind_always_grant_nothing(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch one")
    answered(terminal, ASKS, "a")
    answered(terminal, "Always what? [", "x")
    terminal.see("Add it? [")
    time.sleep(DEAF_S)
    terminal.type("sure")
    terminal.see("Press one of the keys s/p/u.")
    time.sleep(DEAF_S)
    terminal.keys("Escape")
    terminal.see(ASKS, after="left open")
    assert not (terminal.folder / "one").exists()
    answered(terminal, ASKS, "n")
    terminal.see("❯", after="model calls")
    assert not (terminal.folder / "one").exists()


def answered(terminal: Terminal, question: str, key: str) -> None:
    """Wait for a question, and press a key once it listens."""
    terminal.see(question)
    time.sleep(DEAF_S)
    terminal.keys(key)


def test_keys_typed_before_the_question_approve_nothing(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.keys("-l", "run touch made")
    terminal.keys("Enter", "y", "y")
    terminal.see(ASKS)
    time.sleep(0.5)
    assert ASKS in terminal.screen()
    assert not (terminal.folder / "made").exists()


def test_ctrl_c_leaves_the_question_open_at_once(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    began = time.monotonic()
    terminal.keys("C-c")
    screen = terminal.see("Nothing is lost")
    assert time.monotonic() - began < 5
    assert "WARNING" not in screen


def test_yolo_shows_in_the_prompt_and_runs_unasked(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("/mode yolo")
    terminal.see("yolo ❯")
    terminal.see("YOLO")
    terminal.type("run touch made")
    terminal.see("exit 0")
    assert (terminal.folder / "made").exists()
    assert ASKS not in terminal.screen()


def test_exit_says_how_to_come_back(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("/help")
    terminal.type("hello")
    terminal.see("model call")
    terminal.type("/exit")
    screen = terminal.see("exit=0")
    assert re.search(r"Resume with: sandbur -r [0-9a-f-]{36}", screen)


def test_the_picker_finds_a_session_by_its_title(terminal: Terminal) -> None:
    for goal in ("hello there", "what is in this folder"):
        terminal.start(f"-m demo {shlex.quote(goal)}")
        terminal.see("model call")
        terminal.close()
    terminal.start("-r")
    terminal.see("2 of 2")
    terminal.keys("-l", "hello")
    terminal.see("1 of 2")
    terminal.keys("Enter")
    terminal.see("Resumed: hello there")


def test_a_plan_is_shown_step_by_step(terminal: Terminal) -> None:
    terminal.start("-m demo -y 'my web site is slow, find out why'", height=60)
    screen = terminal.see("I am the demo", seconds=15)
    assert "✓ 1." in screen
    assert screen.count("\nPlan") == 1
    assert "✓ Step 1/" in screen
    assert screen.index("Step 1/") < screen.index("Step 2/")
