"""Makes text from models, tools and files safe on a terminal: removes control sequences, escapes invisible
characters."""

import re
import unicodedata

from ....state.process.visible_text import expose, name_character, one_line

__all__ = ["expose", "fence_text", "lookalikes", "one_entry", "one_line", "plain"]

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor, modes
    r"|\x9b[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, ...
    r"|\x1b[ -/]{0,8}[0-~]"
)
_LINE_ENDS = re.compile(r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
# Compiling these takes time, so `re` compiles each one at the first text beyond ASCII.
_SURROGATES = r"[\ud800-\udfff]"
_REORDERING = r"[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
_UNSEEN_MARKS = r"[\xad\u061c\u180e\u200b\u200e\u200f\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb]"
_WORDS = r"\w*[^\x00-\x7f]\w*"


def plain(text: str) -> str:
    """Return text that is safe on a terminal: control sequences removed, reordering marks made visible."""
    text = _SEQUENCES.sub("", text)
    text = _LINE_ENDS.sub("\n", text)
    text = _CONTROLS.sub("", text)
    if text.isascii():
        return text
    text = re.sub(_UNSEEN_MARKS, "", text)
    text = re.sub(_REORDERING, name_character, text)
    return re.sub(_SURROGATES, "\ufffd", text)


def one_entry(text: str) -> str:
    """Return text whose further lines are indented, so that none looks like the next entry of a list."""
    first, *more = plain(text).split("\n")
    return "\n".join([first, *(line if line[:1] in ("", " ") else f"  {line}" for line in more)])


def fence_text(text: str, language: str = "") -> str:
    """Return text as a Markdown code block, with a fence that is longer than any fence in the text."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def lookalikes(text: str) -> list[str]:
    """Return the words that mix Latin letters with letters of a script that imitates them."""
    return [word for word in re.findall(_WORDS, text) if _mixes_scripts(word)]


def _mixes_scripts(word: str) -> bool:
    scripts = {unicodedata.name(letter, "?").split(" ")[0] for letter in word if letter.isalpha()}
    return "LATIN" in scripts and bool(scripts & {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH"})
