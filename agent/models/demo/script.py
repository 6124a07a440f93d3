"""What the demo makes of a person's message: an answer, a call of a tool, or the start of a plan."""

import re
from collections.abc import Callable

from ....state.messages import json_object
from .conversation import Conversation, DemoCall, Done, Move, StepLine, finish, run
from .probes import DISK, FOLDERS, LOAD, PROBES, WEB, Probe, Reading, url_in

HOW_TO_GET_A_MODEL = (
    "I am the demo: a fixed program, no language model. For a real one run `export ANTHROPIC_API_KEY=...` or "
    "`export OPENAI_API_KEY=...`, or start Ollama; then `sandbur -m PROVIDER/MODEL`."
)
ABILITIES = """\
I can do a few fixed things, with real tools on this machine:
- "my web site is slow, find out why" (add an address if you like), "the disk is full", "this machine is slow"
- "what is in this folder", "read FILE", "search for TEXT"
- "create file NAME with TEXT", "replace A with B in FILE"
- "run COMMAND" or "!COMMAND"
"""
_PROBLEM = " Problem: "
_MAX_LINES = 40


def report(conversation: Conversation) -> str:
    """Sum the plan up: the verdict first, then what each step found."""
    lines = conversation.step_lines
    measured = [line for line in lines if line.status == "completed"]
    problems = [line.summary.partition(_PROBLEM)[2] for line in measured if _PROBLEM in line.summary]
    verdict = _verdict(problems, measured)
    found = "\n".join(f"- {_without_problem(line)}" for line in lines)
    return "\n\n".join(part for part in (verdict, found, HOW_TO_GET_A_MODEL) if part)


def _verdict(problems: list[str], measured: list[StepLine]) -> str:
    if problems:
        return "Most likely the cause: " + " Also: ".join(problem.strip() for problem in problems)
    if not measured:
        return "I could not measure anything, so I cannot say what the cause is."
    return (
        "Nothing that was measured on this machine explains it. What was not looked at: the application's "
        "own logs, its database, and the network between it and its users."
    )


def _without_problem(line: StepLine) -> str:
    facts = line.summary.partition(_PROBLEM)[0]
    return facts if line.status == "completed" else f"{facts} (failed)"


def say_results(conversation: Conversation) -> str:
    """Tell what the calls since the person spoke gave."""
    return "\n\n".join(_said(done) for done in conversation.done)


def _said(done: Done) -> str:
    what, content = f"`{_subject(done)}`", done.result.content.strip()
    match done.result.outcome:
        case "denied":
            return f"{what} was not run. {content}".strip()
        case "unknown" | "interrupted":
            return (
                f"{what} was interrupted: it may or may not have taken effect, and I have not run it again. "
                "Check its effect before you repeat it."
            )
        case "timeout":
            return f"{what} ran into its time limit.{_quoted(content)}"
        case "error":
            return f"{what} failed.{_quoted(content)}"
        case "ok":
            return f"{what} gave:{_quoted(content)}" if content else f"{what} is done; it printed nothing."


def _subject(done: Done) -> str:
    """Name the call by what it was about."""
    arguments = json_object(done.use.arguments)
    if arguments is None:
        return done.use.tool
    about = next((arguments[key] for key in ("command", "path", "pattern") if key in arguments), "")
    text = " ".join(str(about).split())
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return shown if done.use.tool == "run_shell_command" else f"{done.use.tool} {shown}".strip()


def _quoted(content: str) -> str:
    """Show the beginning of an output, indented as code."""
    lines = content.splitlines()
    shown = "\n".join(f"    {line}" for line in lines[:_MAX_LINES])
    rest = len(lines) - _MAX_LINES
    more = f"\n    ... {rest} more lines" if rest > 0 else ""
    return f"\n\n{shown}{more}" if content else ""


_GOAL = re.compile(
    r"\b(slow|sluggish|lag(gy|s|ging)?|hangs?|timeouts?|times? out|takes (too|so) long|down|unreachable|full|"
    r"not respond\w*|performance|health\w*|disk|memory|ram|swap|cpu|load)\b",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"\W*(hi|hello|hey|good (morning|day|evening)|thanks?( you)?|bye)\b.{0,20}", re.IGNORECASE
)
_FOLDER = re.compile(
    r"(what('s| is| are)?( there)? (in|inside|this|the files).*"
    r"\b(folder|directory|project|repository|repo|here)\b.*"
    r"|(list|show)( me)?( all)?( the)? (files|folder|directory)\b.*|ls)\W*",
    re.IGNORECASE | re.DOTALL,
)
_README = re.compile(r"\bREADME(?:\.(?:md|rst|txt))?(?![\w.])")
_PATH = r"[`'\"]?(?P<path>[^\s`'\"]+)[`'\"]?"
_README_LINES = 20


def _shell(found: re.Match[str]) -> Move:
    return run(found["command"].strip().strip("`"))


def _read_move(found: re.Match[str]) -> Move:
    return Move("", (DemoCall("read_file", {"path": found["path"]}),))


def _write(found: re.Match[str]) -> Move:
    content = (found["content"] or "").strip()
    if len(content) > 1 and content[0] == content[-1] and content[0] in "`'\"":
        content = content[1:-1]
    whole = f"{content}\n" if content else ""
    return Move("", (DemoCall("write_file", {"path": found["path"], "content": whole}),))


def _replace(found: re.Match[str]) -> Move:
    arguments = {"path": found["path"], "old": found["old"], "new": found["new"]}
    return Move("", (DemoCall("edit_file", arguments),))


def _search(found: re.Match[str]) -> Move:
    return Move("", (DemoCall("grep", {"pattern": re.escape(found["text"].strip("`'\" "))}),))


def _direct(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\s*(?:please\s+)?{pattern}\s*", re.IGNORECASE | re.DOTALL)


_NEW_FILE = rf"(?:create|write|make)\s+(?:a\s+|the\s+)?(?:new\s+)?file\s+(?:called\s+|named\s+)?{_PATH}"
_CONTENT = r"(?:\s+(?:with|containing)(?:\s+the)?(?:\s+(?:text|contents?))?:?\s+(?P<content>.+))?"
_CHANGE = r"replace\s+[`'\"]?(?P<old>.+?)[`'\"]?\s+(?:with|by)\s+[`'\"]?(?P<new>.+?)[`'\"]?\s+in\s+"
_SHOW = r"(?:read|show|print|cat|open)\s+(?:me\s+)?"
_COMMANDS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Move]], ...] = (
    (re.compile(r"\s*!(?P<command>.*\S.*)", re.DOTALL), _shell),
    (_direct(r"(?:run|execute)\s+(?:the\s+command\s+)?(?P<command>\S.*)"), _shell),
    (_direct(_NEW_FILE + _CONTENT), _write),
    (_direct(rf"write\s+(?P<content>.+)\s+(?:to|into)\s+(?:the\s+)?(?:file\s+)?{_PATH}"), _write),
    (_direct(_CHANGE + _PATH), _replace),
    (_direct(r"(?:search\s+for|grep(?:\s+for)?)\s+(?P<text>\S.*)"), _search),
    (_direct(rf"{_SHOW}(?:the\s+)?file\s+{_PATH}"), _read_move),
    (_direct(rf"{_SHOW}[`'\"]?(?P<path>[^\s`'\"]*[./][^\s`'\"]*)[`'\"]?"), _read_move),
)


def first_move(text: str) -> Move:
    """Answer the person's newest message."""
    for pattern, move in _COMMANDS:
        if found := pattern.fullmatch(text):
            return move(found)
    if _FOLDER.fullmatch(text.strip()):
        return Move("", (DemoCall("list_directory", {"path": "."}),))
    if _GOAL.search(text):
        return Move(
            "This takes several measurements, so I make a plan first.",
            (DemoCall("start_plan", {"goal": text.strip()}),),
        )
    greeting = "Hello! " if _GREETING.fullmatch(text) else ""
    return Move(f"{greeting}{HOW_TO_GET_A_MODEL}\n\n{ABILITIES}".strip())


def next_move(conversation: Conversation) -> Move:
    """Go on after results: look into the README that a listing shows, else tell what came out."""
    last = conversation.done[-1] if conversation.done else None
    if last is not None and last.use.tool == "list_directory" and last.result.outcome == "ok":
        readme = _README.search(last.result.content)
        if readme and "read_file" in conversation.tools:
            return Move("", (DemoCall("read_file", {"path": readme[0], "limit": _README_LINES}),))
    return Move(say_results(conversation) or "There is no result to tell about.")


_WEB_WORDS = re.compile(r"https?://|\b(web|web ?site|site|server|page|shop|api|http|url)s?\b", re.IGNORECASE)
_DISK_WORDS = re.compile(r"\b(disk|disc|storage|space|partition|inode|drive)s?\b", re.IGNORECASE)
_MAY_HAVE_RUN = frozenset({"unknown", "interrupted"})


def probes_for(goal: str) -> tuple[Probe, ...]:
    if _WEB_WORDS.search(goal):
        return (LOAD, WEB, DISK)
    return (DISK, FOLDERS) if _DISK_WORDS.search(goal) else (LOAD, DISK)


def planned_steps(conversation: Conversation) -> Move:
    """Plan the goal's measurements, without those that an earlier step has already dealt with."""
    dealt_with = {line.summary.partition(":")[0] for line in conversation.step_lines}
    url = url_in(conversation.text)
    titles = [
        f"{probe.title}: {url}" if probe is WEB and url else probe.title
        for probe in probes_for(conversation.text)
        if probe.topic not in dealt_with
    ]
    steps = [{"description": title} for title in titles]
    return Move("", (DemoCall("submit_plan", {"steps": steps}),))


def next_in_step(conversation: Conversation) -> Move:
    probe = next((probe for probe in PROBES if conversation.step_title.startswith(probe.title)), None)
    if probe is None:
        return finish("failed", f"The demo has no program for: {conversation.step_title or 'this step'}")
    if not conversation.done:
        return run(probe.command)
    last = conversation.done[-1]
    if last.result.outcome in _MAY_HAVE_RUN and _times_asked(last, conversation) < 2:
        again = "It is unknown whether that command ran. It only reads, so I run it again."
        return Move(
            again, (DemoCall(last.use.tool, {"command": _follow(probe, conversation) or probe.command}),)
        )
    follow_up = _follow(probe, conversation)
    if follow_up is not None and last.result.outcome in ("ok", "error"):
        return run(follow_up)
    return _conclusion(probe, conversation)


def _times_asked(last: Done, conversation: Conversation) -> int:
    return sum(done.use.arguments == last.use.arguments for done in conversation.done)


def _read_outputs(conversation: Conversation) -> list[str]:
    """Return what the commands printed; one that failed or ran too long may still have printed something."""
    outcomes = ("ok", "error", "timeout")
    return [done.result.content for done in conversation.done if done.result.outcome in outcomes]


def _follow(probe: Probe, conversation: Conversation) -> str | None:
    """Return the step's second command once the first has printed what it needs."""
    outputs = _read_outputs(conversation)
    return probe.follow_up(conversation.step_title, outputs[0]) if len(outputs) == 1 else None


def _conclusion(probe: Probe, conversation: Conversation) -> Move:
    outputs = _read_outputs(conversation)
    finding = probe.conclude(outputs) if outputs else Reading(())
    trouble = [_trouble(done) for done in conversation.done if done.result.outcome not in ("ok", "error")]
    if not finding.facts:
        why = (
            " ".join(trouble) or f"The command printed nothing readable. {_first_line(conversation.done[-1])}"
        )
        return finish("failed", f"{probe.topic}: not measured. {why}".strip())
    problems = f" Problem: {'; '.join(finding.problems)}." if finding.problems else ""
    more = f" {' '.join(dict.fromkeys(trouble))}" if trouble else ""
    return finish("completed", f"{probe.topic}: {'; '.join(finding.facts)}.{more}{problems}")


def _trouble(done: Done) -> str:
    match done.result.outcome:
        case "denied":
            return f"A command was denied: {_first_line(done)}"
        case "timeout":
            return "A command ran into its time limit."
        case _:
            return "Whether a command ran is unknown."


def _first_line(done: Done) -> str:
    return next((line.strip()[:200] for line in done.result.content.splitlines() if line.strip()), "")
