"""What the demo makes of a person's message: an answer, a call of a tool, or the start of a plan."""

import re
from collections.abc import Callable

from agent.models.demo_answers import ABILITIES, HOW_TO_GET_A_MODEL, say_results
from agent.models.demo_conversation import Conversation
from agent.models.demo_moves import Call, Move, run

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


def _read(found: re.Match[str]) -> Move:
    return Move("", (Call("read_file", {"path": found["path"]}),))


def _write(found: re.Match[str]) -> Move:
    content = (found["content"] or "").strip()
    if len(content) > 1 and content[0] == content[-1] and content[0] in "`'\"":
        content = content[1:-1]
    whole = f"{content}\n" if content else ""
    return Move("", (Call("write_file", {"path": found["path"], "content": whole}),))


def _replace(found: re.Match[str]) -> Move:
    arguments = {"path": found["path"], "old": found["old"], "new": found["new"]}
    return Move("", (Call("edit_file", arguments),))


def _search(found: re.Match[str]) -> Move:
    return Move("", (Call("grep", {"pattern": re.escape(found["text"].strip("`'\" "))}),))


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
    (_direct(rf"{_SHOW}(?:the\s+)?file\s+{_PATH}"), _read),
    (_direct(rf"{_SHOW}[`'\"]?(?P<path>[^\s`'\"]*[./][^\s`'\"]*)[`'\"]?"), _read),
)


def first_move(text: str) -> Move:
    """Answer the person's newest message."""
    for pattern, move in _COMMANDS:
        if found := pattern.fullmatch(text):
            return move(found)
    if _FOLDER.fullmatch(text.strip()):
        return Move("", (Call("list_directory", {"path": "."}),))
    if _GOAL.search(text):
        return Move(
            "This takes several measurements, so I make a plan first.",
            (Call("start_plan", {"goal": text.strip()}),),
        )
    greeting = "Hello! " if _GREETING.fullmatch(text) else ""
    return Move(f"{greeting}{HOW_TO_GET_A_MODEL}\n\n{ABILITIES}".strip())


def next_move(conversation: Conversation) -> Move:
    """Go on after results: look into the README that a listing shows, else tell what came out."""
    last = conversation.done[-1] if conversation.done else None
    if last is not None and last.use.tool == "list_directory" and last.result.outcome == "ok":
        readme = _README.search(last.result.content)
        if readme and "read_file" in conversation.tools:
            return Move("", (Call("read_file", {"path": readme[0], "limit": _README_LINES}),))
    return Move(say_results(conversation) or "There is no result to tell about.")
