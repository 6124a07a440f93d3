"""Keeps the values of placeholders in memory, so that tools that write can fill them in."""

import json
from collections.abc import Callable, Iterable
from hashlib import blake2b
from threading import Lock
from typing import Any, Protocol, cast

from ...state.conversation.messages import parse_json_object
from ..workspace.paths import FileProblem
from .key_formats import LABEL as PRIVATE_KEY
from .key_formats import extract_key_body, is_undecorated
from .named_values import looks_random
from .span import PLACEHOLDER

_MOST_VALUES = 5000
_MOST_ORIGINALS = 500
_MOST_LABEL_CHARS = 80
_MARK_BYTES = 3
_MOST_PROBED_CHARS = 4096


class References:
    """Keeps the masked values of a session, by the label of their placeholder. Without a key, it keeps
    nothing.
    """

    def __init__(self, key: bytes = b"") -> None:
        """`key` makes the marks of values unguessable. It is the same key during the whole session."""
        self._key = key[:64]
        self._values: dict[str, set[str]] = {}
        self._originals: dict[str, str | None] = {}
        self._lock = Lock()
        self.exact_values: set[tuple[str, str]] = set()
        """Pairs of a value and a label. These values are masked everywhere, because a tool wrote them or may
        print them.
        """

    @property
    def has_key(self) -> bool:
        return bool(self._key)

    def make_label(self, label: str, value: bytes) -> str:
        """Return a label that no other value has, and store the value under this label."""
        is_key = label == PRIVATE_KEY
        identity = (extract_key_body(value) or value) if is_key else value
        mark = blake2b(identity, digest_size=_MARK_BYTES, key=self._key, person=b"placeholder").hexdigest()
        own = f"{label[:_MOST_LABEL_CHARS]} {mark}"
        if not is_key or is_undecorated(value):
            with self._lock:
                self._values.setdefault(own, set()).add(value.decode("utf-8", "replace"))
                _drop_oldest(self._values, _MOST_VALUES)
        return own

    def find_values(self, label: str) -> set[str]:
        with self._lock:
            return set(self._values.get(label, ()))

    def keep_original(self, masked: str, original: str) -> None:
        """Keep the original arguments of a call in memory. Only the masked arguments are displayed and
        stored.
        """
        with self._lock:
            is_other = self._originals.get(masked, original) != original
            self._originals[masked] = None if is_other else original
            _drop_oldest(self._originals, _MOST_ORIGINALS)

    def find_original(self, masked: str) -> str | None:
        """Return the original arguments, or None if they are unknown by now or ambiguous."""
        with self._lock:
            return self._originals.get(masked)


def _drop_oldest(values: dict[str, Any], most: int) -> None:
    while len(values) > most:
        values.pop(next(iter(values)))


class Resolver(Protocol):
    """A masker that also knows the values behind its placeholders."""

    @property
    def references(self) -> References: ...
    def text(self, text: str) -> str: ...
    def find_secrets_by_label(self, text: str) -> dict[str, set[str]]: ...
    def find_values(self, label: str) -> set[str]: ...


def fill_placeholders(name: str, text: str, old: str, masker: Resolver) -> str:
    """Return the text with the value of each placeholder; raises `FileProblem` if the value of one is not
    certain.

    Values in the `old` content are preferred. A placeholder that `old` contains literally stays.
    """
    labels = dict.fromkeys(found["label"] for found in PLACEHOLDER.finditer(text))
    if not labels:
        return text
    there = masker.find_secrets_by_label(old)
    values: dict[str, str] = {}
    for label in labels:
        if f"[masked {label}]" in old:
            continue
        meant = _find_values_in_file(label, there) or masker.find_values(label)
        if len(meant) != 1:
            raise FileProblem(_explain_unclear_placeholder(name, label, len(meant)))
        values[label] = meant.pop()
        masker.references.exact_values.add((values[label], label))
    return PLACEHOLDER.sub(lambda found: values.get(found["label"], found[0]), text)


def _find_values_in_file(label: str, there: dict[str, set[str]]) -> set[str]:
    """Return the values in a file for a label. An older version wrote labels without a mark."""
    if label in there:
        return set(there[label])
    return {value for own, values in there.items() if own.rpartition(" ")[0] == label for value in values}


def _explain_unclear_placeholder(name: str, label: str, count: int) -> str:
    why = "the file contains several such values" if count else "its value is not known any more"
    return (
        f"{name} contains [masked {label}] in place of a secret that is hidden from you, and {why}:"
        " writing it would destroy the real value. Nothing was changed. Edit the text around it, in"
        " pieces without it, or move the value with a shell command."
    )


def explain_refusal(placeholder: str, way: str, is_command: bool) -> str:
    """Return the message for a call that is refused because of a placeholder.

    `way`: a sentence that says how a command can get the value; an empty text if no way is known.
    """
    reason = f"{placeholder} replaces a secret that is hidden from you, and only file tools fill it in."
    if not is_command:
        return f"{reason} Nothing was run."
    advice = way or "Write it into a file with a file tool, and let the command read that file"
    return f"{reason} Nothing was run. {advice}."


def explain_lost_value(placeholder: str) -> str:
    """Return why arguments with a secret that the model wrote cannot run in another process."""
    what = f"the value of {placeholder}" if placeholder else "a secret in its arguments"
    return f"{what} was kept in memory only, and the process that knew it has ended."


def find_placeholder(arguments: Any, apart_from: Iterable[str] = ()) -> str:
    """Return the first placeholder in a JSON value, or an empty text. The fields `apart_from` are skipped."""
    if isinstance(arguments, str):
        found = PLACEHOLDER.search(arguments)
        return "" if found is None else found[0]
    if isinstance(arguments, dict):
        fields = cast("dict[str, Any]", arguments)
        left = [(name, value) for name, value in fields.items() if name not in apart_from]
        return next((one for pair in left for value in pair if (one := find_placeholder(value))), "")
    if isinstance(arguments, list):
        return next((one for value in cast("list[Any]", arguments) if (one := find_placeholder(value))), "")
    return ""


def mask_arguments(arguments: str, masker: Resolver) -> str:
    """Mask JSON arguments value by value, so that they stay valid JSON. Return the same object if no secret
    is found.
    """
    try:
        value: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        masked = masker.text(arguments)
    else:
        clean = _mask_value(value, "", masker.text)
        if clean == value:
            return arguments
        masked = json.dumps(clean, ensure_ascii=False)
    if masked != arguments:
        masker.references.keep_original(masked, arguments)
    return masked


def mask_call_fields(arguments: str, masker: Resolver) -> dict[str, Any]:
    """Return two fields of a call that a person wrote: the masked `arguments`, and whether they are
    `masked`.
    """
    masked = mask_arguments(arguments, masker)
    return {"arguments": masked, "masked": bool(find_placeholder(parse_json_object(masked)))}


def _mask_value(value: Any, name: str, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        clean = mask(value)
        return _mask_by_name(name, value, mask) if clean == value and name else clean
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {mask(key): _mask_value(one, key, mask) for key, one in fields.items()}
    if isinstance(value, list):
        return [_mask_value(one, name, mask) for one in cast("list[Any]", value)]
    return value


def _mask_by_name(name: str, value: str, mask: Callable[[str], str]) -> str:
    """Return a value masked if the name of its field makes it a secret, otherwise unchanged.

    The name `token` alone does not: a tokenizer has such a parameter, so the form of the value counts, too.
    """
    if name.lower() == "token" and not looks_random(value.encode("utf-8", "replace")):
        return value
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
