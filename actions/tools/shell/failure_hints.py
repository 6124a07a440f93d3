"""Hints for the model about failed commands that needed input or were blocked by their sandbox."""

import re

_END_CHARS = 4000
"""The number of characters at the end of the output that are searched. The reason of a failure is at
the end.
"""
_WALLS = re.compile(
    r"Read-only file system|EROFS|Network is unreachable|ENETUNREACH|Could not resolve host|EAI_AGAIN"
    r"|Temporary failure in name resolution|Operation not permitted|Device or resource busy"
    r"|allows no connection to|not a public address|Failed to resolve|Connection refused"
)

_QUESTIONS = re.compile(
    r"terminal is required to (?:read|authenticate)|no tty present|no askpass|Inappropriate ioctl for device"
    r"|(?:is not a|not a|not from a|requires a|needs a|open a) (?:tty|TTY|terminal)|/dev/tty: No such device"
    r"|could not read (?:Username|Password)|terminal prompts disabled|EOF when reading a line"
    r"|Aborting commit due to empty commit message|Host key verification failed|Authentication token manip"
    r"|Error reading input, exiting|User input required|ERR_USE_AFTER_CLOSE|non-interactive"
)


def advice_on(output: str, sandbox: str) -> str:
    """Return a hint for the model if the cause of a failure is recognized, else an empty text.

    `sandbox`: the sandbox of the command; empty if it had none.
    """
    end = output[-_END_CHARS:]
    if _QUESTIONS.search(end):
        return (
            "it asked for input, but nobody can answer: there is no terminal and no input; answer by"
            " an argument, an option such as --yes or -m, a variable, a pipe or a here-document"
        )
    if sandbox and _WALLS.search(end):
        return (
            f"commands run in a sandbox here ({sandbox}): only the workspace and /tmp can be"
            " written, and not what git, shells, editors or CI run from it; there are no UNIX sockets"
        )
    return ""
