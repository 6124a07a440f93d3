"""Untrusted text in Markdown: code that cannot break out, prose that brings no HTML and no picture."""

import re

from ui.sanitize import one_line, plain

_TICKS = re.compile(r"`+")
_FENCED = re.compile(
    r"^ {0,3}(?P<fence>`{3,}+|~{3,}+)(?P<language>\w*+)[^\n]*\n"
    r"(?P<text>.*?)(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r"`{3,}|~{3,}")
_HEADING = re.compile(r"^ {0,3}#{1,6} +([^\n]+)$", re.MULTILINE)
_RULE = re.compile(r"^ {0,3}(?=(?:-[ \t]*){3,}$|=+[ \t]*$)", re.MULTILINE)


def fenced(text: str, language: str = "") -> str:
    """Return a code block whose fence is longer than every run of backticks in it."""
    longest = max((len(run[0]) for run in _TICKS.finditer(text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def code(text: str) -> str:
    """Return text as inline code."""
    shown = one_line(text)
    if not shown.strip():
        return "``"
    longest = max((len(run[0]) for run in _TICKS.finditer(shown)), default=0)
    fence = "`" * (longest + 1)
    edge = " " if shown.startswith("`") or shown.endswith("`") or longest else ""
    return f"{fence}{edge}{shown}{edge}{fence}"


def line(text: str) -> str:
    """Return text on one line that means nothing but itself."""
    return re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", one_line(text))


def prose(text: str) -> str:
    """Return Markdown of a person or a model without HTML, pictures and headings.

    Its code blocks are fenced anew, so that no reader sees another end of them than this one.
    """
    text = plain(text).strip("\n")
    parts: list[str] = []
    end = 0
    for found in _FENCED.finditer(text):
        parts += [_tamed(text[end : found.start()]), "\n\n", fenced(found["text"], found["language"]), "\n"]
        end = found.end()
    parts.append(_tamed(text[end:]))
    return "".join(parts).strip("\n")


def _tamed(text: str) -> str:
    """Write out what would begin something: entities mean themselves behind every backslash, too."""
    text = text.replace("<", "&lt;").replace("![", "!&#91;")
    text = _FENCE.sub(lambda run: f"&#{ord(run[0][0])};" * len(run[0]), text)
    text = _RULE.sub("\\\\", text)
    return _HEADING.sub(lambda heading: f"**{heading[1].strip(' #*')}**", text)
