"""What the demo makes of a person's message: an answer, a call of a tool, or the start of a plan."""

import re
from collections.abc import Callable

from ....state.json_text import json_object
from .conversation import Conversation, Done, Move, finish
from .probes import DISK, FOLDERS, LOAD, PROBES, WEB, Probe, url_in

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
_MOST_LINES = 40
_README_LINES = 20

_GOAL = re.compile(
    r"\b(slow|sluggish|lag(gy|s|ging)?|hangs?|timeouts?|times? out|takes (too|so) long|down|unreachable|full|"
    r"not respond\w*|performance|health\w*|disk|memory|ram|swap|cpu|load)\b",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"\W*(hi|hello|hey|good (morning|day|evening)|thanks?( you)?|bye)\b.{0,20}", re.IGNORECASE
)
_README = re.compile(r"\bREADME(?:\.(?:md|rst|txt))?(?![\w.])")
_WEB_WORDS = re.compile(r"https?://|\b(web|web ?site|site|server|page|shop|api|http|url)s?\b", re.IGNORECASE)
_DISK_WORDS = re.compile(r"\b(disk|disc|storage|space|partition|inode|drive)s?\b", re.IGNORECASE)

_PATH = r"[`'\"]?(?P<path>[^\s`'\"]+)[`'\"]?"
_NEW_FILE = rf"(?:create|write|make)\s+(?:a\s+|the\s+)?(?:new\s+)?file\s+(?:called\s+|named\s+)?{_PATH}"
_CONTENT = r"(?:\s+(?:with|containing)(?:\s+the)?(?:\s+(?:text|contents?))?:?\s+(?P<content>.+))?"
_CHANGE = r"replace\s+[`'\"]?(?P<old>.+?)[`'\"]?\s+(?:with|by)\s+[`'\"]?(?P<new>.+?)[`'\"]?\s+in\s+"
_SHOW = r"(?:read|show|print|cat|open)\s+(?:me\s+)?"
_LIST = (
    r"(?:what(?:'s| is| are)?(?: there)? (?:in|inside|this|the files).*"
    r"\b(?:folder|directory|project|repository|repo|here)\b.*"
    r"|(?:list|show)(?: me)?(?: all)?(?: the)? (?:files|folder|directory)\b.*|ls)\W*"
)


def _write_file(found: dict[str, str]) -> dict[str, str]:
    content = (found["content"] or "").strip()
    if len(content) > 1 and content[0] == content[-1] and content[0] in "`'\"":
        content = content[1:-1]
    return {**found, "content": f"{content}\n" if content else ""}


def _grep(found: dict[str, str]) -> dict[str, str]:
    return {"pattern": re.escape(found["text"].strip("`'\" "))}


def _command(found: dict[str, str]) -> dict[str, str]:
    return {"command": found["command"].strip().strip("`")}


_REQUESTS: tuple[tuple[str, str, Callable[[dict[str, str]], dict[str, str]]], ...] = (
    ("run_shell_command", r"!(?P<command>.*\S.*)", _command),
    ("run_shell_command", r"(?:run|execute)\s+(?:the\s+command\s+)?(?P<command>\S.*)", _command),
    ("write_file", _NEW_FILE + _CONTENT, _write_file),
    ("write_file", rf"write\s+(?P<content>.+)\s+(?:to|into)\s+(?:the\s+)?(?:file\s+)?{_PATH}", _write_file),
    ("edit_file", _CHANGE + _PATH, lambda found: {"path": found["path"], **found}),
    ("grep", r"(?:search\s+for|grep(?:\s+for)?)\s+(?P<text>\S.*)", _grep),
    ("read_file", rf"{_SHOW}(?:the\s+)?file\s+{_PATH}", dict),
    ("read_file", rf"{_SHOW}[`'\"]?(?P<path>[^\s`'\"]*[./][^\s`'\"]*)[`'\"]?", dict),
    ("list_directory", _LIST, lambda found: {"path": "."}),
)
"""Tool, what a person says for it, and its arguments out of the named groups."""


def first_move(text: str) -> Move:
    """Answer the person's newest message."""
    for tool, pattern, arguments in _REQUESTS:
        polite = rf"\s*(?:please\s+)?{pattern}\s*"
        if found := re.fullmatch(polite, text, re.IGNORECASE | re.DOTALL):
            return Move("", tool, arguments(found.groupdict()))
    if _GOAL.search(text):
        plan_first = "This takes several measurements, so I make a plan first."
        return Move(plan_first, "start_plan", {"goal": text.strip()})
    greeting = "Hello! " if _GREETING.fullmatch(text) else ""
    return Move(f"{greeting}{HOW_TO_GET_A_MODEL}\n\n{ABILITIES}".strip())


def next_move(conversation: Conversation) -> Move:
    """Go on after results: look into the README that a listing shows, else tell what came out."""
    last = conversation.done[-1] if conversation.done else None
    if last is not None and last.use.tool == "list_directory" and last.result.outcome == "ok":
        readme = _README.search(last.result.content)
        if readme and "read_file" in conversation.tools:
            return Move("", "read_file", {"path": readme[0], "limit": _README_LINES})
    said = "\n\n".join(_said(done) for done in conversation.done)
    return Move(said or "There is no result to tell about.")


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
    more = [f"... {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    shown = "\n".join(f"    {line}" for line in [*lines[:_MOST_LINES], *more])
    return f"\n\n{shown}" if content else ""


def planned_steps(conversation: Conversation) -> Move:
    """Plan the goal's measurements, without those that an earlier step has already dealt with."""
    goal, url = conversation.text, url_in(conversation.text)
    probes = (DISK, FOLDERS) if _DISK_WORDS.search(goal) else (LOAD, DISK)
    probes = (LOAD, WEB, DISK) if _WEB_WORDS.search(goal) else probes
    dealt_with = {line.summary.partition(":")[0] for line in conversation.step_lines}
    steps = [
        {"description": f"{probe.title}: {url}" if probe is WEB and url else probe.title}
        for probe in probes
        if probe.topic not in dealt_with
    ]
    return Move("", "submit_plan", {"steps": steps})


def next_in_step(conversation: Conversation) -> Move:
    """Run the step's command, then the one that its output asks for; a lost one once more; conclude."""
    title, done = conversation.step_title, conversation.done
    probe = next((probe for probe in PROBES if title.startswith(probe.title)), None)
    if probe is None:
        return finish("failed", f"The demo has no program for: {title or 'this step'}")
    # What failed or ran too long may still have printed something.
    outputs = [one.result.content for one in done if one.result.outcome in ("ok", "error", "timeout")]
    command = probe.command
    if outputs:
        command = probe.follow_up(title, outputs[0]) if len(outputs) == 1 else ""
    outcome = done[-1].result.outcome if done else "ok"
    if command and outcome in ("ok", "error"):
        return Move("", "run_shell_command", {"command": command})
    is_first_try = sum(one.use.arguments == done[-1].use.arguments for one in done) < 2
    if command and outcome in ("unknown", "interrupted") and is_first_try:
        again = "It is unknown whether that command ran. It only reads, so I run it again."
        return Move(again, "run_shell_command", {"command": command})
    return _conclusion(probe, outputs, done)


def _conclusion(probe: Probe, outputs: list[str], done: tuple[Done, ...]) -> Move:
    findings = list(probe.read("\n".join(outputs)))
    trouble = " ".join(dict.fromkeys(said for one in done if (said := _trouble(one))))
    if not findings:
        why = trouble or f"The command printed nothing readable. {_first_line(done[-1])}"
        return finish("failed", f"{probe.topic}: not measured. {why}".strip())
    found = "; ".join(problem for _, problem in findings if problem)
    parts = [f"{probe.topic}: {'; '.join(fact for fact, _ in findings)}.", trouble]
    problems = f"{_PROBLEM}{found}." if found else ""
    return finish("completed", f"{' '.join(filter(None, parts))}{problems}")


def _trouble(done: Done) -> str:
    match done.result.outcome:
        case "ok" | "error":
            return ""
        case "denied":
            return f"A command was denied: {_first_line(done)}"
        case "timeout":
            return "A command ran into its time limit."
        case _:
            return "Whether a command ran is unknown."


def _first_line(done: Done) -> str:
    return next((line.strip()[:200] for line in done.result.content.splitlines() if line.strip()), "")


def report(conversation: Conversation) -> Move:
    """Sum the plan up: the verdict first, then what each step found."""
    measured = [line for line in conversation.step_lines if line.status == "completed"]
    problems = [line.summary.partition(_PROBLEM)[2].strip() for line in measured if _PROBLEM in line.summary]
    verdict = (
        "Nothing that was measured on this machine explains it. What was not looked at: the application's "
        "own logs, its database, and the network between it and its users."
    )
    if problems:
        verdict = "Most likely the cause: " + " Also: ".join(problems)
    elif not measured:
        verdict = "I could not measure anything, so I cannot say what the cause is."
    found = "\n".join(
        f"- {line.summary.partition(_PROBLEM)[0]}{'' if line in measured else ' (failed)'}"
        for line in conversation.step_lines
    )
    return Move("\n\n".join(part for part in (verdict, found, HOW_TO_GET_A_MODEL) if part))
