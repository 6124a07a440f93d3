"""Keeps the values of placeholders in memory, and fills them in where a tool writes."""

import json
from collections.abc import Callable, Iterable
from hashlib import blake2b
from threading import Lock
from typing import Any, Protocol, cast

from ...state.conversation.messages import json_object
from ..workspace.paths import FileProblem
from .key_formats import LABEL as PRIVATE_KEY
from .key_formats import is_as_in_its_file, key_body
from .span import PLACEHOLDER

_MOST_VALUES = 5000
_MOST_ORIGINALS = 500
_MOST_LABEL_CHARS = 80
_MARK_BYTES = 3
_MOST_PROBED_CHARS = 4096


class References:
    """The masked values of a session, by the label of their placeholder; without a key nothing is kept."""

    def __init__(self, key: bytes = b"") -> None:
        """`key` makes the marks of values unguessable; it is always the same for one session."""
        self._key = key[:64]
        self._values: dict[str, set[str]] = {}
        self._originals: dict[str, str | None] = {}
        self._lock = Lock()
        self.filled_in: set[tuple[str, str]] = set()
        """Pairs of value and label that are masked everywhere: values that tools wrote, or may print."""

    @property
    def tells_apart(self) -> bool:
        return bool(self._key)

    def label(self, label: str, value: bytes) -> str:
        """Return a label that no other value has, and remember the value."""
        is_key = label == PRIVATE_KEY
        identity = (key_body(value) or value) if is_key else value
        mark = blake2b(identity, digest_size=_MARK_BYTES, key=self._key, person=b"placeholder").hexdigest()
        own = f"{label[:_MOST_LABEL_CHARS]} {mark}"
        if not is_key or is_as_in_its_file(value):
            with self._lock:
                self._values.setdefault(own, set()).add(value.decode("utf-8", "replace"))
                _shortened(self._values, _MOST_VALUES)
        return own

    def values(self, label: str) -> set[str]:
        with self._lock:
            return set(self._values.get(label, ()))

    def keep_original(self, masked: str, original: str) -> None:
        """Remember the original arguments of a call; the masked ones are shown and stored."""
        with self._lock:
            is_other = self._originals.get(masked, original) != original
            self._originals[masked] = None if is_other else original
            _shortened(self._originals, _MOST_ORIGINALS)

    def original(self, masked: str) -> str | None:
        """Return the original arguments; None if they are unknown by now, or ambiguous."""
        with self._lock:
            return self._originals.get(masked)


def _shortened(kept: dict[str, Any], most: int) -> None:
    while len(kept) > most:
        kept.pop(next(iter(kept)))


class Resolver(Protocol):
    """A masker that also knows the values of its placeholders."""

    @property
    def references(self) -> References: ...
    def text(self, text: str) -> str: ...
    def labelled(self, text: str) -> dict[str, set[str]]: ...
    def named(self, label: str) -> set[str]: ...


def filled(name: str, text: str, old: str, masker: Resolver) -> str:
    """Return the text with a value for each placeholder; raises `FileProblem` where a value is not certain.

    Values in the `old` content come first. A placeholder that is literally in `old` stays.
    """
    labels = dict.fromkeys(found["label"] for found in PLACEHOLDER.finditer(text))
    if not labels:
        return text
    there = masker.labelled(old)
    values: dict[str, str] = {}
    for label in labels:
        if f"[masked {label}]" in old:
            continue
        meant = _in_file(label, there) or masker.named(label)
        if len(meant) != 1:
            raise FileProblem(_unclear(name, label, len(meant)))
        values[label] = meant.pop()
        masker.references.filled_in.add((values[label], label))
    return PLACEHOLDER.sub(lambda found: values.get(found["label"], found[0]), text)


def _in_file(label: str, there: dict[str, set[str]]) -> set[str]:
    """Return the values that a file has for a label. An older version wrote labels without a mark."""
    if label in there:
        return set(there[label])
    return {value for own, values in there.items() if own.rpartition(" ")[0] == label for value in values}


def _unclear(name: str, label: str, count: int) -> str:
    why = "the file holds several such values" if count else "its value is not known here any more"
    return (
        f"{name} has [masked {label}] in it, for a secret that you were not shown, and {why}: writing it"
        " would destroy the real value. Nothing was changed. Edit the text around it, in"
        " pieces without it, or move the value with a shell command."
    )


def refused(placeholder: str, way: str, is_command: bool) -> str:
    """Explain why a call with a placeholder does not run; `way` says how a command can get the value."""
    reason = f"{placeholder} stands for a secret that you were not shown, and only file tools fill it in."
    if not is_command:
        return f"{reason} Nothing was run."
    advice = way or "Write it into a file with a file tool, and let the command read that file"
    return f"{reason} Nothing was run. {advice}."


def lost(placeholder: str) -> str:
    """Explain why arguments with a secret that the model wrote cannot run in another process."""
    what = f"the value of {placeholder}" if placeholder else "a secret in its arguments"
    return f"{what} was kept in memory only, and the process that knew it has ended."


def placeholder_in(arguments: Any, apart_from: Iterable[str] = ()) -> str:
    """Return the first placeholder in a JSON value, except in the fields `apart_from`; empty if none."""
    if isinstance(arguments, str):
        found = PLACEHOLDER.search(arguments)
        return "" if found is None else found[0]
    if isinstance(arguments, dict):
        fields = cast("dict[str, Any]", arguments)
        left = [(name, value) for name, value in fields.items() if name not in apart_from]
        return next((one for pair in left for value in pair if (one := placeholder_in(value))), "")
    if isinstance(arguments, list):
        return next((one for value in cast("list[Any]", arguments) if (one := placeholder_in(value))), "")
    return ""


def masked_arguments(arguments: str, masker: Resolver) -> str:
    """Mask JSON arguments value by value, so that they stay JSON; the same object if nothing was masked."""
    try:
        value: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        masked = masker.text(arguments)
    else:
        clean = _masked(value, "", masker.text)
        if clean == value:
            return arguments
        masked = json.dumps(clean, ensure_ascii=False)
    if masked != arguments:
        masker.references.keep_original(masked, arguments)
    return masked


def masked_wish(arguments: str, masker: Resolver) -> dict[str, Any]:
    """Return two fields of a call that a person wrote: `arguments`, masked, and whether it is `masked`."""
    masked = masked_arguments(arguments, masker)
    return {"arguments": masked, "masked": bool(placeholder_in(json_object(masked)))}


def _masked(value: Any, name: str, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        clean = mask(value)
        return _masked_by_name(name, value, mask) if clean == value and name else clean
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {mask(key): _masked(one, key, mask) for key, one in fields.items()}
    if isinstance(value, list):
        return [_masked(one, name, mask) for one in cast("list[Any]", value)]
    return value


def _masked_by_name(name: str, value: str, mask: Callable[[str], str]) -> str:
    """Mask a value that is a secret only because of the name of its field."""
    if (
        not 6 <= len(value) <= _MOST_PROBED_CHARS
        or not (name + value).isprintable()
        or {'"', "\\"} & {*name, *value}
    ):
        return value
    probe = f'"{name}": "{value}"'
    masked, head = mask(probe), f'"{name}": "'
    is_value_alone = masked != probe and masked.startswith(head) and masked.endswith('"')
    return masked[len(head) : -1] if is_value_alone else value
