"""Lists any number of tools in a description of limited length."""

from collections.abc import Sequence

from ....actions.ports import ToolSpec

_MOST_CHARACTERS = 12_000
_LINE_CHARACTERS = 100


def catalogue(head: str, specs: Sequence[ToolSpec]) -> str:
    """Return `head` with a line for each tool. If that is too long, list only names, as many as fit."""
    lines = [f"- {spec.name}: {first_words(spec.description)}" for spec in specs]
    if sum(map(len, lines)) + len(lines) <= _MOST_CHARACTERS:
        return "\n".join((head, *lines))
    names, size = list[str](), 0
    for spec in specs:
        size += len(spec.name) + 2
        if size > _MOST_CHARACTERS:
            break
        names.append(spec.name)
    more = f", and {len(specs) - len(names):,} more" if len(names) < len(specs) else ""
    return f"{head}\n{', '.join(names)}{more}"


def first_words(description: str) -> str:
    """Return the beginning of a description as one short line."""
    text = " ".join(description[: 4 * _LINE_CHARACTERS].split())
    end = text.find(". ")
    text = text if end < 0 else text[: end + 1]
    return text if len(text) <= _LINE_CHARACTERS else f"{text[: _LINE_CHARACTERS - 3]}..."
