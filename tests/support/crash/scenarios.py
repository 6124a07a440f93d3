"""Scenarios of crash tests: tasks for an agent whose effects can be counted after the run."""

import json
import re
import sqlite3
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.crash.past import Past
from support.crash.worlds import World, with_hooks, with_tool_server, with_web_server
from support.models.server import Answer, Request, Turn, call, fail, say
from support.models.turns import ToolCall, calls
from support.places import FIXTURES

HOOK = """\
# Kills the agent here, if that is what the trial wants, and lives on to see what becomes of this command.
if [ -e "../kill-$1" ]; then
  rm "../kill-$1"
  kill -9 "$(cat ../agent.pid)"
  sleep 83.5
fi
"""
FORM = '{"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}'
FORMED = '{"word": "one"}'
AGENTS = "tests.support.crash.agents"
_QUESTION = re.compile(r'with question "(q[0-9a-f]+)"')
OLD, NEW = "first line\nold line\nlast line\n", "first line\nnew line\nlast line\n"
MADE = "made by a tool\n" * 50


@dataclass(frozen=True)
class Scenario:
    """A script for the model, and the effects and files that must exist after the run."""

    name: str
    respond: Callable[[Past], Answer]
    answers: tuple[str, ...]
    messages: tuple[str, ...] = ("do it",)
    effects: tuple[str, ...] = ()
    """Words; for each word one command writes a line to effects.txt at its start and at its end."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path -> content of a file after the run; before, the file does not exist or is unchanged."""
    flags: tuple[str, ...] = ("--yolo",)
    forks: bool = False
    """True if the second message goes to a fork."""
    opens: bool = False
    """True if its tools need a dependency that writes a line when it is opened and closed."""
    at_once: int = 1
    """The most commands that run at the same time, so that one death may leave so many outcomes unknown."""
    program: str = ""
    """The file of a program that runs in place of the command; empty for the command."""
    world: World | None = None
    """A configuration or server that exists during the whole trial."""
    prepare: Callable[[Path], None] | None = None
    """Makes a SQLite store before the first message."""
    between: Callable[[Path], None] | None = None
    """Changes the SQLite store before the second message."""

    @property
    def needs_sqlite(self) -> bool:
        return bool(self.prepare or self.between)

    def responder(self) -> Callable[[Request], Answer]:
        trial = uuid.uuid4().hex
        return lambda request: self.respond(Past(request, trial))


def make_call(tool: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(tool, json.dumps(arguments))


def effect(word: str) -> ToolCall:
    """Return a call that writes a word, waits so that the agent can be killed, and writes again."""
    command = f"echo {word} >> effects.txt; sh ../hook {word}; echo {word}-end >> effects.txt"
    return make_call("run_shell_command", command=command)


def rounds(past: Past, *turns: Turn) -> Answer:
    """Return the turn that follows the rounds of the history."""
    return turns[min(past.rounds, len(turns) - 1)]


def _tools(past: Past) -> Answer:
    look = make_call("read_file", path="notes.txt")
    return rounds(
        past,
        calls(
            look,
            make_call("grep", pattern="old"),
            effect("one"),
            make_call("grep", pattern="new"),
            effect("two"),
        ),
        calls(make_call("write_file", path="made.txt", content=MADE)),
        calls(make_call("edit_file", path="notes.txt", old="old line", new="new line")),
        calls(effect("three")),
        calls(make_call("glob", pattern="*.txt"), look, make_call("list_directory", path=".")),
        say("all is written"),
    )


def _effects(past: Past) -> Answer:
    return rounds(past, calls(effect("one")), calls(effect("two")), say("both are written"))


def _chat(past: Past) -> Answer:
    return say("I am well" if any("how are you" in text for text in past.users) else "hello to you")


def _forked(past: Past) -> Answer:
    if any("once more" in text for text in past.users):
        return rounds(past, calls(effect("two")), say("done again"))
    return rounds(past, calls(effect("one")), say("done once"))


def _approvals(past: Past) -> Answer:
    return rounds(
        past,
        calls(effect("one"), make_call("read_file", path="notes.txt")),
        calls(make_call("write_file", path="made.txt", content=MADE)),
        say("approved and written"),
    )


def _plan(*steps: str) -> Turn:
    return call("submit_plan", steps=[{"description": step} for step in steps])


def _finish(status: str, summary: str) -> Turn:
    return call("finish_step", status=status, summary=summary)


def _vibe(past: Past) -> Answer:
    if past.wants_plan:
        return _plan("write one", "make a file")
    if past.step == "1":
        return rounds(past, calls(effect("one")), _finish("completed", "one is written"))
    if past.step == "2":
        made = calls(make_call("write_file", path="made.txt", content=MADE))
        return rounds(past, made, _finish("completed", "the file is made"))
    if any("The plan is finished" in text for text in past.users):
        return say("the plan is through")
    return call("start_plan", goal="one and a file")


def _replan(past: Past) -> Answer:
    if past.wants_plan:
        return (
            _plan("again") if any("Revise the plan" in text for text in past.users) else _plan("try", "skip")
        )
    if past.step == "1":
        return rounds(past, calls(effect("one")), _finish("failed", "it did not work"))
    if past.step == "2":
        return rounds(past, calls(effect("two")), _finish("completed", "now it did"))
    if any("The plan is finished" in text for text in past.users):
        return say("the second try worked")
    return call("start_plan", goal="try and try again")


def _formed(past: Past) -> Answer:
    if any("not the answer that is asked for" in text for text in past.users):
        return say(FORMED)
    return rounds(past, calls(effect("one")), say("one is written"))


def _long(past: Past) -> Answer:
    if past.summarizes:
        return say("one was written")
    if past.is_summarized:
        return say("that was long")
    if past.rounds:
        return fail(400, "too long", code="context_length_exceeded")
    return calls(effect("one"), make_call("run_shell_command", command="seq 1 2000"))


def _noted(*tools: str) -> Callable[[Past], Answer]:
    """Return a responder that lets each tool note one word."""
    turns = [calls(make_call(tool, word=word)) for tool, word in zip(tools, ("one", "two"), strict=True)]
    return lambda past: rounds(past, *turns, say("both are noted"))


def _asked(past: Past) -> Answer:
    texts = [text for _, text in past.results.values()]
    found = [match[1] for text in texts if (match := _QUESTION.search(text))]
    if any("noted one" in text or "it was done" in text for text in texts):
        return say("the word is noted")
    if not found:
        return calls(make_call("mcp__it__book", place="Rome"))
    answer = {"question": found[-1], "asked": "Which word in Rome?", "answer": json.dumps({"word": "one"})}
    return calls(make_call("answer_mcp_question", **answer))


def _kept(past: Past) -> Answer:
    """Write a file to the memory of the session and one to the store, edit both, and read them."""
    paths = (f"/memory/{past.trial}.md", f"/store/{past.trial}.md")
    listings = [text for _, text in past.results.values() if text.strip().startswith("1\t")]
    return rounds(
        past,
        *(calls(make_call("write_file", path=path, content="one\n")) for path in paths),
        *(calls(make_call("edit_file", path=path, old="one", new="one two")) for path in paths),
        calls(*(make_call("read_file", path=path) for path in paths)),
        say(
            "all is kept"
            if [text.split() for text in listings] == [["1", "one", "two"]] * 2
            else f"{listings}"
        ),
    )


def _family(past: Past) -> Answer:
    """Let three sub-agents work side by side; each writes one word."""
    words = ("one", "two", "three")
    if past.child:
        return rounds(past, calls(effect(past.child)), say(f"{past.child} is written"))
    tasks = [make_call("task", description=f"write {word}", prompt=f"Write {word}.") for word in words]
    return rounds(past, calls(*tasks), say("three sub-agents are done"))


def _talk(past: Past) -> Answer:
    """Let an agent of a hub write a word, then say how often it has spoken, and how much it has heard."""
    spoken = sum(entry.kind == "assistant" for entry in past.entries)
    if not spoken:
        return rounds(past, calls(effect(past.child)), say(f"{past.child} is written"))
    return say(f"{past.child}:{spoken}:{len(past.users)}")


def _plan_steps(past: Past) -> Answer:
    """Let two steps of a plan run side by side, and a third one after them; each writes one word."""
    if past.child:
        return rounds(past, calls(effect(past.child)), _finish("completed", f"{past.child} is written"))
    if past.wants_plan:
        beside = [{"description": f"Write {word}.", "after": []} for word in ("one", "two")]
        return call("submit_plan", steps=[*beside, {"description": "Write three."}])
    if past.step:
        return rounds(past, calls(effect("three")), _finish("completed", "three is written"))
    if any("The plan is finished" in text for text in past.users):
        return say("three steps are done")
    return call("start_plan", goal="three words")


def _overhear(past: Past) -> Answer:
    if any("use tabs" in text for text in past.users):
        return say("tabs it is")
    return rounds(past, calls(make_call("overhear")), say("nobody said anything"))


def word_of(arguments: Mapping[str, Any]) -> str:
    """Return the word that a call writes, by its arguments, or an empty text."""
    command = str(arguments.get("command", ""))
    if command.startswith("echo "):
        return command.split()[1]
    with suppress(ValueError):
        arguments = json.loads(arguments.get("answer", "{}")) or arguments
    return str(arguments.get("word", ""))


def _older_store(path: Path) -> None:
    """Make a store as the first schema had it."""
    path.parent.mkdir(mode=0o700)
    with closing(sqlite3.connect(path)) as database:
        database.executescript((FIXTURES / "store-1.sql").read_text())
    path.chmod(0o600)


def _spoil_a_record(path: Path) -> None:
    """Damage the record of a call that ended long ago."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE calls SET body = '{spoilt' WHERE move = 'started'")
        database.commit()


TALK = "Tell the others. one:1:3 two:1:4 three:1:5 one:2:6 two:2:7 three:2:8 one:3:9 two:3:9 three:3:9"
"""What is said in the hub; each agent says its word, how often it has answered, and how much it has heard."""
WITH_RULES = ("--allow", "run_shell_command", "--allow", "write_file")

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("tools", _tools, ("all is written",), effects=("one", "two", "three"),
                 files={"made.txt": MADE, "notes.txt": NEW}),
        Scenario("effects", _effects, ("both are written",), effects=("one", "two")),
        Scenario("rules", _effects, ("both are written",), effects=("one", "two"), flags=WITH_RULES),
        Scenario("vibe", _vibe, ("the plan is through",), effects=("one",), files={"made.txt": MADE}),
        Scenario("replan", _replan, ("the second try worked",), effects=("one", "two")),
        Scenario("form", _formed, (FORMED,), effects=("one",),
                 flags=("--yolo", "--json-schema", "../form.json")),
        Scenario("long", _long, ("that was long",), effects=("one",)),
        Scenario("approvals", _approvals, ("approved and written",), effects=("one",),
                 files={"made.txt": MADE}, flags=()),
        Scenario("chat", _chat, ("hello to you", "I am well"), messages=("hello", "how are you?")),
        Scenario("fork", _forked, ("done once", "done again"), messages=("do it", "once more"),
                 effects=("one", "two"), forks=True),
        Scenario("older", _effects, ("both are written",), effects=("one", "two"), prepare=_older_store),
        Scenario("hooks", _effects, ("both are written",), effects=("one", "two"), world=with_hooks),
        Scenario("mcp", _noted("mcp__it__note", "mcp__it__note"), ("both are noted",), effects=("one", "two"),
                 flags=("--allow", "mcp__it"), world=with_tool_server),
        Scenario("question", _asked, ("the word is noted",), effects=("one",),
                 flags=("--allow", "mcp__it"), world=with_tool_server),
        Scenario("http", _noted("note", "set_note"), ("both are noted",), effects=("one", "two"),
                 flags=("--allow", "note", "--allow", "set_note"), world=with_web_server),
        Scenario("functions", _noted("note", "note_once"), ("both are noted",), effects=("one", "two"),
                 flags=("--agent", f"{AGENTS}:functions", "--allow", "note", "--allow", "note_once"),
                 opens=True),
        Scenario("kept", _kept, ("all is kept",), flags=("--agent", f"{AGENTS}:kept", "--yolo")),
        Scenario("heard", _overhear, ("tabs it is",), flags=("--agent", f"{AGENTS}:heard", "--yolo")),
        Scenario("children", _family, ("three sub-agents are done",), effects=("one", "two", "three"),
                 at_once=3),
        Scenario("asked_children", _family, ("three sub-agents are done",), effects=("one", "two", "three"),
                 flags=WITH_RULES, at_once=3),
        Scenario("plan_steps", _plan_steps, ("three steps are done",), effects=("one", "two", "three"),
                 at_once=2),
        Scenario("asked_plan_steps", _plan_steps, ("three steps are done",),
                 effects=("one", "two", "three"), flags=WITH_RULES, at_once=2),
        Scenario("workflow", _family, ('["one is written","two is written","three is written"]',),
                 effects=("one", "two", "three"), at_once=3,
                 flags=("--agent", f"{AGENTS}:writers", "--yolo")),
        Scenario("hub", _talk, (TALK,), effects=("one", "two", "three"), program="hub_program.py"),
        Scenario("damaged", _forked, ("done once", "done again"), messages=("do it", "once more"),
                 effects=("one", "two"), between=_spoil_a_record),
    )
}  # fmt: skip
