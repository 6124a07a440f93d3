"""The question before a call runs, driven by keys through a pipe."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from prompt_toolkit.input import PipeInput
from support.screens.question_desk import Decisions, QuestionDesk
from support.waiting import until

from sandbur.agent.config.trust import trust
from sandbur.agent.policy.approval_context import ApprovalContext
from sandbur.agent.policy.rules.rule_suggestions import RuleSuggestion
from sandbur.state.calls import CallDecision, PendingCall
from sandbur.ui.chat.decisions.always import Always
from sandbur.ui.chat.decisions.approvals import Approvals
from sandbur.ui.chat.decisions.questions import DEAF_S, CommandTyped, GivenAnswer, OneKey
from sandbur.ui.chat.input.composer import Leave

pytestmark = pytest.mark.slow


class Rules:
    """What "always" can mean in a session that keeps it in memory."""

    def __init__(self) -> None:
        self.accepted: list[RuleSuggestion] = []
        self.offered = [RuleSuggestion("exact", "run_shell_command(df -h)")]

    def suggest_rules(self, call: PendingCall) -> list[RuleSuggestion]:
        return self.offered

    def accept(self, offer: RuleSuggestion) -> None:
        self.accepted.append(offer)


class Desk(QuestionDesk):
    def __init__(self, keys: PipeInput, cwd: Path) -> None:
        super().__init__(keys)
        self.changes = ""
        """The difference of files that each call would write."""
        self.rules = Rules()
        self.config = cwd / ".sandbur/config.toml"
        env = {"HOME": str(cwd / "home")}
        always = Always(self.questions, self.rules, cwd, env)
        self.approvals = Approvals(self.questions, always, str(cwd), self.about)

    def about(self, call: PendingCall, is_edited: bool) -> ApprovalContext:
        why = "the person changed it" if is_edited else call.reason
        places = ("a.txt", "/etc/x (outside the workspace)")
        return ApprovalContext(why, places, ("x.example",), "off", changes=self.changes)

    async def decide(self, *typed: str, calls: list[PendingCall] | None = None) -> Decisions:
        return await self.answer(self.approvals.ask(calls or [shell("df -h")]), typed)


@pytest.fixture
def desk(keys: PipeInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    return Desk(keys, tmp_path)


def shell(command: str, call_id: str = "c1") -> PendingCall:
    arguments = json.dumps({"command": command})
    return PendingCall(call_id=call_id, tool="run_shell_command", arguments=arguments, reason="may write")


async def test_the_difference_of_a_call_is_shown_and_v_shows_a_long_one_whole(desk: Desk) -> None:
    desk.changes = "\n".join(f"+line {number}" for number in range(100))
    await desk.decide("v", "n")
    first, _, second = desk.out.getvalue().partition("view everything")
    assert "+line 0" in first
    assert "+line 50" not in first
    assert "lines hidden; v shows everything" in first
    assert "+line 50" in second


def pasted(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


async def test_y_approves_once_and_unchanged(desk: Desk) -> None:
    assert await desk.decide("y") == [CallDecision(call_id="c1", approved=True)]
    assert desk.rules.accepted == []


async def test_n_denies(desk: Desk) -> None:
    assert await desk.decide("n") == [CallDecision(call_id="c1", approved=False)]


async def test_s_with_enter_lets_commands_pass_in_a_sandbox(desk: Desk) -> None:
    sandboxed = RuleSuggestion("sandbox", "sandboxed(run_shell_command)")
    desk.rules.offered.append(sandboxed)
    decisions = await desk.decide("s\r", calls=[shell("df -h"), shell("du", "c2")])
    assert decisions == [CallDecision(call_id="c1", approved=True)]
    assert desk.rules.accepted == [sandboxed]
    assert "in the sandbox, and do not ask again for this session" in desk.out.getvalue()


async def test_s_is_nothing_where_no_sandbox_is_offered(desk: Desk) -> None:
    assert await desk.decide("s", "\x7f", "n") == [CallDecision(call_id="c1", approved=False)]
    assert desk.rules.accepted == []


async def test_always_shows_the_rule_and_takes_a_second_key_for_it(desk: Desk) -> None:
    decisions = await desk.decide("a", "s", calls=[shell("df -h"), shell("du", "c2")])
    assert decisions == [CallDecision(call_id="c1", approved=True)]
    assert desk.rules.accepted == desk.rules.offered
    assert not desk.config.exists()
    asked, _, shown = desk.out.getvalue().partition("From now on this runs without a question")
    assert "run_shell_command(df -h)" not in asked
    assert "run_shell_command(df -h)" in shown.partition("Add it?")[0]


async def test_for_good_it_stands_in_the_configuration_of_the_project(desk: Desk) -> None:
    assert await desk.decide("a", "p\r") == [CallDecision(call_id="c1", approved=True)]
    assert desk.config.read_text() == 'allow = ["run_shell_command(df -h)"]\n'
    assert desk.rules.accepted == desk.rules.offered
    assert f"in this project permanently ({desk.config})" in desk.out.getvalue()


async def test_for_good_waits_for_enter(desk: Desk) -> None:
    assert await desk.decide("a", "p", "\x7f\x1b", "n") == [CallDecision(call_id="c1", approved=False)]
    assert desk.rules.accepted == []
    assert not desk.config.exists()


async def test_of_several_offers_one_is_chosen(desk: Desk) -> None:
    desk.rules.offered += [
        RuleSuggestion("prefix", "run_shell_command(df x *)"),
        RuleSuggestion("edits", mode="auto-edit"),
    ]
    assert await desk.decide("a", "p", "s") == [CallDecision(call_id="c1", approved=True)]
    assert desk.rules.accepted == [desk.rules.offered[1]]
    choices, _, shown = desk.out.getvalue().partition("From now on this runs without a question")
    for line in ("[x] exactly this: ", "[p] whatever begins like this: ", "[w] all edits in this workspace"):
        assert line in choices
    assert "run_shell_command(df x *)" in shown


async def test_all_edits_for_good_are_a_mode_of_the_project(desk: Desk) -> None:
    desk.rules.offered = [RuleSuggestion("edits", mode="auto-edit")]
    desk.config.parent.mkdir()
    desk.config.write_text('# ours\nmode = "plan" # for now\n')
    trust(desk.config.parent.parent, {"HOME": str(desk.config.parent.parent / "home")})
    await desk.decide("a", "p\r")
    assert desk.config.read_text() == '# ours\nmode = "auto-edit" # for now\n'


async def test_without_an_offer_there_is_no_always(desk: Desk) -> None:
    desk.rules.offered = []
    assert await desk.decide("a\r", "n") is not None
    assert "always" not in desk.out.getvalue()


@pytest.mark.parametrize("key", ["\x1b", "\x03", "\x04"])
async def test_who_thinks_better_of_always_is_asked_again(desk: Desk, key: str) -> None:
    assert await desk.decide("a", key, "n") == [CallDecision(call_id="c1", approved=False)]
    assert desk.rules.accepted == []


@pytest.mark.parametrize("text", ["yes", "sure, go", "ss", "always", "S", "/mode yolo", "y", "a"])
async def test_words_at_the_question_behind_always_grant_nothing(desk: Desk, text: str) -> None:
    assert await desk.decide("a", f"{text}\r", "\x1b", "n") == [CallDecision(call_id="c1", approved=False)]
    assert desk.rules.accepted == []


async def test_a_rule_of_many_lines_is_shown_whole_before_it_is_added(desk: Desk) -> None:
    lines = [f"echo {number}" for number in range(100)]
    desk.rules.offered = [RuleSuggestion("exact", f"run_shell_command({chr(10).join(lines)})")]
    await desk.decide("a", "s")
    shown = desk.out.getvalue().partition("From now on this runs without a question")[2].partition("[s]")[0]
    for line in lines:
        assert line in shown


async def test_hidden_characters_of_a_rule_are_shown(desk: Desk) -> None:
    desk.rules.offered = [RuleSuggestion("exact", "run_shell_command(rm \u202e\x1b[8m x)")]
    await desk.decide("a", "s")
    assert "<U+202E>" in desk.out.getvalue()
    assert not {"\u202e", "\x1b"} & set(desk.out.getvalue())


async def test_a_file_that_cannot_be_written_grants_nothing(desk: Desk) -> None:
    desk.config.parent.write_text("a file where the folder would be")
    decisions = await desk.decide("a", "p\r", "n")
    assert decisions == [CallDecision(call_id="c1", approved=False)]
    assert desk.rules.accepted == []
    assert "cannot be written" in desk.out.getvalue()


async def test_r_denies_with_a_reason(desk: Desk) -> None:
    assert await desk.decide("r", "too slow\r") == [
        CallDecision(call_id="c1", approved=False, reason="too slow")
    ]


async def test_every_call_of_a_turn_is_asked_about(desk: Desk) -> None:
    decisions = await desk.decide("y", "n", calls=[shell("df"), shell("rm x", "c2")])
    assert decisions == [
        CallDecision(call_id="c1", approved=True),
        CallDecision(call_id="c2", approved=False),
    ]


@pytest.mark.parametrize("key", ["\x03", "\x04", "\x1b"])
async def test_the_question_can_be_left_open_and_then_nothing_is_decided(desk: Desk, key: str) -> None:
    assert await desk.decide("y", key, calls=[shell("df"), shell("rm x", "c2")]) is None


async def test_what_was_typed_before_the_question_decides_nothing(desk: Desk, keys: PipeInput) -> None:
    keys.send_text("y")
    assert await desk.decide("n") == [CallDecision(call_id="c1", approved=False)]


async def test_a_key_right_after_the_question_decides_nothing(desk: Desk, keys: PipeInput) -> None:
    asking = asyncio.ensure_future(desk.approvals.ask([shell("df")]))
    for _ in range(4):
        await asyncio.sleep(DEAF_S / 2)
        keys.send_text("y")
    await desk.until(True, 5)
    assert not asking.done()
    keys.send_text("n")
    async with asyncio.timeout(5):
        assert await asking == [CallDecision(call_id="c1", approved=False)]


@pytest.mark.parametrize(
    "noise", ["\r", "\n", "\x1b[A", " \x15", "x\x15", "yx\x7f\x7f", f"{pasted('y')}\r", "yo\x7f\r", " \r\x15"]
)
async def test_only_the_offered_keys_decide(desk: Desk, noise: str) -> None:
    assert await desk.decide(noise, "n") == [CallDecision(call_id="c1", approved=False)]


@pytest.mark.parametrize(
    "text",
    [
        "what does this do?",
        "yes, but not here",
        "always ask first",
        "no way",
        "run it in /tmp",
        "/etc/passwd is mine",
    ],
)
async def test_a_line_of_text_is_a_no_with_this_reason(desk: Desk, text: str) -> None:
    assert await desk.decide(f"{text}\r") == [CallDecision(call_id="c1", approved=False, reason=text)]
    assert desk.rules.accepted == []


@pytest.mark.parametrize("word", ["yes", "Y", "OK!", "okay.", "yes, please", "Sure", "是", "好的。", "ja"])
async def test_a_word_of_consent_asks_for_the_key_again(desk: Desk, word: str) -> None:
    assert await desk.decide(f"{word}\r", "y") == [CallDecision(call_id="c1", approved=True)]
    assert "A word decides nothing" in desk.out.getvalue()
    assert await desk.decide(f"{word}\r", "n") == [CallDecision(call_id="c1", approved=False)]


@pytest.mark.parametrize("word", ["yes", "ok", "是"])
async def test_a_word_of_consent_is_no_answer_to_any_question(keys: PipeInput, word: str) -> None:
    question = OneKey("Keep this fact? [y/n/e] ", "yne", text_means="keep this text")
    asking = asyncio.ensure_future(question.ask())
    async with asyncio.timeout(10):
        await until(lambda: question.is_ready)
        keys.send_text(f"{word}\r")
        await until(lambda: asking.done() or not question.listens)
        await until(lambda: asking.done() or question.is_ready)
        keys.send_text("y")
        assert await asking == GivenAnswer(key="y")


@pytest.mark.parametrize(
    "parts", [("y", "esterday\r"), ("a", "sk me\r"), ("e", "rr, no\r"), ("y", f"{pasted('o')}\r")]
)
async def test_a_letter_that_something_follows_is_no_answer(
    desk: Desk, keys: PipeInput, parts: tuple[str, str]
) -> None:
    asking = asyncio.ensure_future(desk.approvals.ask([shell("df")]))
    await desk.until(True, 5)
    for part in parts:
        keys.send_text(part)
        for _ in range(3):  # the loop reads it; a pause in milliseconds may grow to an answer
            await asyncio.sleep(0)
    async with asyncio.timeout(5):
        (decision,) = await asking or []
    assert not decision.approved
    assert decision.reason in ("yesterday", "ask me", "err, no", "yo")
    assert desk.rules.accepted == []


async def test_escape_right_after_a_letter_takes_it_back(desk: Desk) -> None:
    assert await desk.decide("y\x1b") is None


@pytest.mark.parametrize("typed", ["y", "y\r", "y\n"])
async def test_a_letter_alone_counts_with_and_without_enter(desk: Desk, typed: str) -> None:
    assert await desk.decide(typed) == [CallDecision(call_id="c1", approved=True)]


async def test_lines_that_come_at_once_grant_nothing(desk: Desk) -> None:
    assert await desk.decide("y\nwhat?\n") == [CallDecision(call_id="c1", approved=False, reason="ywhat?")]


async def test_a_pasted_reason_arrives_whole(desk: Desk) -> None:
    text = "\n".join(f"line {number}" for number in range(100))
    (decision,) = await desk.decide(f"no: {pasted(text)}\r") or []
    assert decision.reason == f"no: {text}"


@pytest.mark.parametrize("text", ["/mode yolo", "/help", "/nonsense"])
async def test_a_command_decides_nothing(desk: Desk, text: str) -> None:
    with pytest.raises(CommandTyped) as typed:
        await desk.decide(f"{text}\r")
    assert typed.value.text == text


@pytest.mark.parametrize("key", ["\x1b", "\x1b[A\x1b"])
async def test_escape_acts_at_once(desk: Desk, keys: PipeInput, key: str) -> None:
    took: list[float] = []
    while len(took) < 5 and min(took, default=1.0) > 0.3:
        asking = asyncio.ensure_future(desk.approvals.ask([shell("df")]))
        await desk.until(True, 5)
        keys.send_text(key)
        began = time.monotonic()
        async with asyncio.timeout(5):
            assert await asking is None
        took.append(time.monotonic() - began)
    assert min(took) <= 0.3


async def test_a_signal_ends_the_question_without_a_decision(desk: Desk) -> None:
    asking = asyncio.ensure_future(desk.approvals.ask([shell("df")]))
    await asyncio.sleep(0.1)
    desk.questions.leave(143)
    with pytest.raises(Leave):
        await asking


async def test_an_edited_command_is_shown_again_and_then_runs_as_edited(desk: Desk) -> None:
    decisions = await desk.decide("e", "\x15df -i\r", "y")
    assert decisions == [CallDecision(call_id="c1", approved=True, arguments='{"command": "df -i"}')]
    assert "$ df -i" in desk.out.getvalue()


async def test_an_editor_edits_the_arguments(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "sed -i s/old/new/")
    call = PendingCall(call_id="c1", tool="write_file", arguments='{"path": "a", "content": "old"}')
    decisions = await desk.decide("e", "y", calls=[call])
    assert decisions is not None
    assert json.loads(decisions[0].arguments or "") == {"path": "a", "content": "new"}
    assert "asks why:    the person changed it" in desk.out.getvalue()


async def test_an_edit_that_cannot_be_used_is_told_and_kept_for_the_next_try(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = PendingCall(
        call_id="c1", tool="edit_file",
        arguments='{"path": "a", "old": "x", "new": "z", "replace_all": true}',
    )  # fmt: skip
    asking = asyncio.ensure_future(desk.approvals.ask([call]))
    for editor in ("sed -i -e s/true/yes/ -e s/z/longer/", "sed -i s/yes/false/"):
        await desk.until(True, 5)
        monkeypatch.setenv("EDITOR", editor)
        desk._keys.send_text("e")
        await desk.until(False, 1)
    await desk.until(True, 5)
    desk._keys.send_text("y")
    async with asyncio.timeout(5):
        (decision,) = await asking or []
    assert json.loads(decision.arguments or "") == {
        "path": "a", "old": "x", "new": "longer", "replace_all": False,
    }  # fmt: skip
    assert "'replace_all': this is not a JSON value" in desk.out.getvalue()
    assert "Nothing was changed; e opens your text again." in desk.out.getvalue()


async def test_an_editor_that_is_missing_is_said(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    assert await desk.decide("e", "n") == [CallDecision(call_id="c1", approved=False)]
    assert "/no/such/editor cannot be started" in desk.out.getvalue()


async def test_hidden_characters_of_a_command_are_shown(desk: Desk) -> None:
    await desk.decide("n", calls=[shell("rm \u202e\x1b[8m -rf\u200b /tmp/\u0430bc")])
    shown = desk.out.getvalue()
    assert "<U+202E>" in shown
    assert "\\x1b[8m" in shown
    assert "<U+200B>" in shown
    assert "letters of other scripts" in shown
    assert not {"\u202e", "\x1b", "\u200b"} & set(shown)


async def test_a_long_command_is_shown_to_its_end_on_demand(desk: Desk) -> None:
    command = "\n".join(f"echo {number}" for number in range(300))
    await desk.decide("v", "n", calls=[shell(command)])
    question, _, everything = desk.out.getvalue().partition("view everything")
    assert "lines hidden" in question
    assert "echo 0\n" in question
    assert "echo 299" in question
    assert "echo 150" not in question
    assert "echo 150" in everything


async def test_a_write_is_shown_as_the_difference_it_makes(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    arguments = json.dumps({"path": "a.txt", "content": "one\nTWO\n"})
    await desk.decide("n", calls=[PendingCall(call_id="c1", tool="write_file", arguments=arguments)])
    assert "-two" in desk.out.getvalue()
    assert "+TWO" in desk.out.getvalue()


async def test_an_edit_is_shown_with_what_goes_and_what_comes(desk: Desk) -> None:
    arguments = json.dumps({"path": "a.txt", "old": "x = 1\ny = 2", "new": "x = 3", "replace_all": True})
    await desk.decide("n", calls=[PendingCall(call_id="c1", tool="edit_file", arguments=arguments)])
    shown = desk.out.getvalue()
    assert "-x = 1" in shown
    assert "-y = 2" in shown
    assert "+x = 3" in shown
    assert "replace_all: true" in shown


async def test_arguments_of_an_unknown_kind_are_shown_whole(desk: Desk) -> None:
    call = PendingCall(call_id="c1", tool="send", arguments='{"to": "x", "count": 3, "body": "a\\nb"}')
    await desk.decide("n", calls=[call])
    shown = desk.out.getvalue()
    for part in ("to: x", "count: 3", "body: a", "b"):
        assert part in shown


async def test_why_where_and_in_what_it_runs_stand_below_the_call(desk: Desk) -> None:
    await desk.decide("n")
    shown = desk.out.getvalue()
    for line in (
        "shell wants to run  run_shell_command\n",
        "$ df -h",
        "asks why:    may write",
        "leads to:    a.txt, /etc/x (outside the workspace), x.example (network)",
        "sandbox:     off",
    ):
        assert line in shown


async def test_the_question_about_a_plan_asks_whether_to_begin_it(keys: PipeInput, tmp_path: Path) -> None:
    desk = QuestionDesk(keys)
    always = Always(desk.questions, Rules(), tmp_path, {})

    def describe(call: PendingCall, is_edited: bool) -> ApprovalContext:
        return ApprovalContext(is_plan=True)

    approvals = Approvals(desk.questions, always, str(tmp_path), describe)
    plan = "# Count\n## Count the files\n- runs: ls"
    call = PendingCall(call_id="c1", tool="propose_plan", arguments=json.dumps({"plan": plan}))
    (decision,) = await desk.answer(approvals.ask([call]), ("y",)) or []
    assert decision.approved
    shown = desk.out.getvalue()
    for line in ("The model proposes a plan", "1. Count the files", "│ runs    ls", "[y] yes, begin it"):
        assert line in shown
    assert "leads to" not in shown


THREE = [shell("df"), shell("rm x\nrm y", "c2"), shell("du", "c3")]


async def test_the_other_calls_of_a_turn_are_in_view(desk: Desk) -> None:
    await desk.decide("y", "n", "n", calls=THREE)
    first, second, third = desk.out.getvalue().split("wants to run")[1:]
    assert "1 of 3" in first.splitlines()[0]
    assert "2 of 3  waits     shell rm x ..." in first
    assert "3 of 3  waits     shell du" in first
    assert "1 of 3  decided   shell df" in second
    assert "2 of 3  this one" in second
    assert "[A] all 3" in first
    assert "[A] all 2" in second
    assert "[A]" not in third


async def test_all_are_approved_by_a_key_of_its_own_once_each_was_shown_whole(desk: Desk) -> None:
    decisions = await desk.decide("A", "y\r", calls=THREE)
    assert decisions == [CallDecision(call_id=call.call_id, approved=True) for call in THREE]
    asked = desk.out.getvalue().partition("see each whole")[2]
    for part in ("$ df", "rm y", "$ du", "yes, all 3, once each"):
        assert part in asked


async def test_all_that_are_left_do_not_include_one_that_was_denied(desk: Desk) -> None:
    decisions = await desk.decide("n", "A", "y\r", calls=THREE)
    assert [(one.call_id, one.approved) for one in decisions or []] == [
        ("c1", False), ("c2", True), ("c3", True),
    ]  # fmt: skip


@pytest.mark.parametrize("noise", [("y\x7f\x1b",), ("all\r", "\x1b"), ("A\r", "\x1b"), ("n",)])
async def test_only_the_key_for_all_and_enter_approve_all(desk: Desk, noise: tuple[str, ...]) -> None:
    decisions = await desk.decide("A", *noise, "n", "n", "n", calls=THREE)
    assert [one.approved for one in decisions or []] == [False, False, False]


async def test_a_rule_can_hold_for_the_person_in_every_folder(desk: Desk) -> None:
    assert await desk.decide("a", "u\r") == [CallDecision(call_id="c1", approved=True)]
    own = desk.config.parent.parent / "home/.config/sandbur/config.toml"
    assert own.read_text() == 'allow = ["run_shell_command(df -h)"]\n'
    assert not desk.config.exists()
