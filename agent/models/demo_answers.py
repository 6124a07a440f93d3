"""What the demo tells the person at the end: only what the steps and results in the conversation say."""

import json

from agent.models.demo_conversation import Conversation, Done, StepLine

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
    try:
        arguments = json.loads(done.use.arguments)
    except ValueError:
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
