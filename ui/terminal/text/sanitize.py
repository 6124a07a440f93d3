"""Makes text from models, tools and files safe on a terminal: removes control sequences, escapes invisible
characters."""

import re
import unicodedata

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
_UNSEEN = (
    r"[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180e\u2000-\u200f"
    r"\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_WORDS = r"\w*[^\x00-\x7f]\w*"


def plain(text: str) -> str:
    """Return text that is safe on a terminal: control sequences removed, reordering marks made visible."""
    text = _SEQUENCES.sub("", text)
    text = _LINE_ENDS.sub("\n", text)
    text = _CONTROLS.sub("", text)
    if text.isascii():
        return text
    text = re.sub(_UNSEEN_MARKS, "", text)
    text = re.sub(_REORDERING, _name_character, text)
    return re.sub(_SURROGATES, "\ufffd", text)


def expose(text: str) -> str:
    """Return text with every invisible character escaped; line ends stay."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_UNSEEN, _name_character, text)


def one_line(text: str) -> str:
    """Return text on one line, with line ends and all invisible characters escaped."""
    return expose(text).replace("\n", "\\n")


def fence_text(text: str, language: str = "") -> str:
    """Return text as a Markdown code block, with a fence that is longer than any fence in the text."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def lookalikes(text: str) -> list[str]:
    """Return the words that mix Latin letters with letters of a script that imitates them."""
    return [word for word in re.findall(_WORDS, text) if _mixes_scripts(word)]


def _name_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"<U+{code:04X}>"


def _mixes_scripts(word: str) -> bool:
    scripts = {unicodedata.name(letter, "?").split(" ")[0] for letter in word if letter.isalpha()}
    return "LATIN" in scripts and bool(scripts & {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH"})
