"""The question about a call whose outcome nobody knows, driven by keys through a pipe."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from prompt_toolkit.input import PipeInput
from support.screens.question_desk import Decisions, QuestionDesk

from sandbur.agent.session.unknown_outcome import Aftermath
from sandbur.state.calls import CallDecision, PendingCall
from sandbur.ui.chat.decisions.questions import DEAF_S, CommandTyped
from sandbur.ui.chat.decisions.settling import Settling
from sandbur.ui.terminal.text.times import ago

pytestmark = pytest.mark.slow


class Desk(QuestionDesk):
    def __init__(self, keys: PipeInput) -> None:
        super().__init__(keys)
        self.settling = Settling(self.questions, "/some/place", self.look)
        self.left = Aftermath()

    async def look(self, call: PendingCall) -> Aftermath:
        return self.left

    async def decide(self, *typed: str, calls: list[PendingCall] | None = None) -> Decisions:
        return await self.answer(self.settling.ask(calls or [unknown()]), typed)


@pytest.fixture
def desk(keys: PipeInput) -> Desk:
    return Desk(keys)


def unknown(command: str = "make install", call_id: str = "c1", output: str = "line\n") -> PendingCall:
    return PendingCall(
        call_id=call_id,
        tool="run_shell_command",
        arguments=json.dumps({"command": command}),
        kind="outcome_unknown",
        started_at=(datetime.now(UTC) - timedelta(minutes=3)).isoformat(),
        output=output,
        note="It was stopped 2.0 s after its start because the agent was gone.",
    )


async def test_everything_a_decision_may_rest_on_is_shown(desk: Desk) -> None:
    await desk.decide("\x03")
    shown = desk.out.getvalue()
    for part in (
        "shell was interrupted  run_shell_command",
        "It was running when the process died; its outcome is unknown.",
        "$ make install",
        "folder:  /some/place",
        "started: 2",
        "(3 minutes ago)",
        "known:   It was stopped 2.0 s after its start",
        "output so far:",
        "line",
        "[i] inspect",
        "changed since: no file of the workspace",
        "[m] let the model check",
        "[r] run it again",
        "[d] it was done",
        "[f] it failed, or did not happen",
        "left open",
    ):
        assert part in shown, part


async def test_what_it_left_is_shown(desk: Desk) -> None:
    desk.left = Aftermath(
        ("created out.txt",), ("a\u202e.py", "b.py"), 7, False, ("removed c",), ("12 make",)
    )
    await desk.decide("\x03")
    shown = " ".join(desk.out.getvalue().replace("|", " ").replace("\u2502", " ").split())
    for part in (
        "it did: created out.txt",
        "changed since: a<U+202E>.py, b.py, and 7 more (not every file was looked at)",
        "git says: removed c (at an unknown time)",
        "still runs: 12 make",
    ):
        assert part in shown, part


async def test_r_runs_it_again(desk: Desk) -> None:
    assert await desk.decide("r") == [CallDecision(call_id="c1", settle="rerun")]


@pytest.mark.parametrize(("key", "settle"), [("d", "done"), ("f", "failed"), ("m", "check")])
@pytest.mark.parametrize("text", ["", "I looked: it is there"])
async def test_done_failed_and_check_may_carry_what_the_person_knows(
    desk: Desk, key: str, settle: str, text: str
) -> None:
    (decision,) = await desk.decide(key, f"{text}\r") or []
    assert (decision.settle, decision.result) == (settle, text)


@pytest.mark.parametrize("key", ["\x03", "\x04", "\x1b"])
async def test_a_question_left_open_decides_nothing(desk: Desk, key: str) -> None:
    calls = [unknown(), unknown("rm x", "c2")]
    assert await desk.decide("r", key, calls=calls) is None


async def test_a_line_of_text_settles_nothing_and_is_kept_for_the_model(desk: Desk) -> None:
    (decision,) = await desk.decide("run it? no, it is there\r", "d", ".\r") or []
    assert (decision.settle, decision.result) == ("done", "run it? no, it is there.")


async def test_a_command_settles_nothing(desk: Desk) -> None:
    with pytest.raises(CommandTyped):
        await desk.decide("/help\r")


async def test_thinking_better_of_the_text_asks_again(desk: Desk) -> None:
    assert await desk.decide("d", "\x03", "r") == [CallDecision(call_id="c1", settle="rerun")]


async def test_each_call_is_asked_about(desk: Desk) -> None:
    decisions = await desk.decide("r", "f", "\r", calls=[unknown(), unknown("rm x", "c2")])
    assert [(d.call_id, d.settle) for d in decisions or []] == [("c1", "rerun"), ("c2", "failed")]


async def test_inspect_shows_all_of_the_output_and_asks_again(desk: Desk) -> None:
    output = "".join(f"row {number}\n" for number in range(200))
    await desk.decide("i", "r", calls=[unknown(output=output)])
    first, _, everything = desk.out.getvalue().partition("inspect: all output")
    assert "(180 lines more above)" in first
    assert "row 199" in first
    assert "row 3\n" not in first
    assert "row 3\n" in everything


async def test_what_was_typed_before_the_question_settles_nothing(desk: Desk, keys: PipeInput) -> None:
    keys.send_text("r")
    asking = asyncio.ensure_future(desk.settling.ask([unknown()]))
    await asyncio.sleep(DEAF_S / 4)
    keys.send_text("r")
    await desk.until(True, 5)
    assert not asking.done()
    keys.send_text("\x03")
    async with asyncio.timeout(5):
        assert await asking is None


@pytest.mark.parametrize("noise", ["\r", "y\x7f", "\x1b[200~r\x1b[201~\r"])
async def test_there_is_no_default(desk: Desk, noise: str) -> None:
    assert await desk.decide(noise, "r") == [CallDecision(call_id="c1", settle="rerun")]


async def test_hidden_characters_are_shown(desk: Desk) -> None:
    await desk.decide("r", calls=[unknown("rm \u202e\x1b[8m", output="\x1b]52;c;eA==\x07ha\u200blf")])
    shown = desk.out.getvalue()
    assert not {"\u202e", "\x1b", "\x07", "\u200b"} & set(shown)
    assert "<U+202E>" in shown


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.1, "just now"),
        (1.5, "1 second ago"),
        (59, "59 seconds ago"),
        (61, "1 minute ago"),
        (7300, "2 hours ago"),
        (90_000, "1 day ago"),
        (-60, "in the future: a clock was changed"),
    ],
)
def test_how_long_ago_is_said_in_words(seconds: float, words: str) -> None:
    assert ago((datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()) == words


@pytest.mark.parametrize("stamp", ["", "yesterday", "2026-01-01T00:00:00"])
def test_a_time_that_cannot_be_read_is_no_error(stamp: str) -> None:
    assert ago(stamp) == "some time ago"
