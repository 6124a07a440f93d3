"""Masks secrets in a text when it enters a session, so that model, store, logs and screen get the
same text.
"""

import base64
import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from urllib.parse import quote, quote_plus

from .key_formats import (
    BEGIN,
    FOLD,
    MOST_BODY_BYTES,
    MOST_BYTES,
    find_block_end,
    find_formatted_keys,
    find_key_blocks,
    find_key_parts,
    find_open_body,
)
from .named_values import (
    compile_pair,
    find_header_values,
    find_named_values,
    find_url_secrets,
    find_user_flag_passwords,
)
from .references import References
from .span import PLACEHOLDER as PLACEHOLDER
from .span import SecretSpan, drop_placeholder_spans, find_matches_at, mask, merge_spans, replace_spans
from .windows import mask_windows

MOST_HELD_BYTES = 16_384
"""The most bytes of an unfinished line that are held back. An unfinished private key may be longer."""
_LEAST_HELD_BYTES = 2048
_CONTEXT_BYTES = 512
_SECRET_HINT = re.compile(rb"(?i)pass|pwd|secret|token|credential|key|auth|cookie|bearer|://|----")
_ALPHANUMERIC = re.compile(rb"[A-Za-z0-9]")
_MARKER_START = re.compile(rb"-{1,5}\Z")
"""Matches text that may begin a private key. If it has four or five dashes, the whole line is held back."""
_LINE_END = re.compile(rb"[\r\n]")


class StreamMasker:
    """Masks the text of one stream. `feed` returns the text that can be released now, `end` returns
    the rest.
    """

    def __init__(self, find: Callable[[bytes], list[SecretSpan]], values: Sequence[bytes] = ()) -> None:
        """`find` returns the secrets in the given bytes. `values` are the exact values that `find`
        looks for.
        """
        self._find = find
        self._values = values
        self._released = b""
        """The released part of the current line. It is examined again, but not released again."""
        self._pending = b""
        self._is_key_open = False
        """Whether the pending bytes may start with a private key. This can change only at the end of a line.
        """

    def feed(self, piece: str) -> str:
        data = piece.encode("utf-8", "surrogatepass")
        self._pending += data
        if self._is_key_open and len(self._pending) <= MOST_BODY_BYTES and _LINE_END.search(data) is None:
            return ""
        return self._release(self._count_releasable())

    def end(self) -> str:
        return self._release(len(self._pending))

    def _count_releasable(self) -> int:
        """Return how many pending bytes can be released because no secret can start in them."""
        held = self._pending
        lines_end = max(held.rfind(b"\n"), held.rfind(b"\r")) + 1
        key = _find_open_key(held, lines_end)
        self._is_key_open = key == 0
        if key is not None:
            return key
        rest = held[lines_end:]
        line = rest if lines_end else self._released + rest
        if len(rest) > MOST_HELD_BYTES:
            return self._find_cut()
        if _SECRET_HINT.search(line) is not None:
            return lines_end
        word = max(rest.rfind(b" "), rest.rfind(b"\t")) + 1
        first, marker = _ALPHANUMERIC.search(rest, word), _MARKER_START.search(rest)
        starts = [found.start() for found in (first, marker) if found is not None]
        return lines_end + min((*starts, self._find_value_start(rest)))

    def _find_value_start(self, rest: bytes) -> int:
        """Return the position where an exact value may start that continues in the next piece."""
        earliest = len(rest)
        for value in self._values:
            at = rest.find(value[:1], max(len(rest) - len(value) + 1, 0), earliest)
            while at >= 0:
                if value.startswith(rest[at:]):
                    earliest = at
                    break
                at = rest.find(value[:1], at + 1, earliest)
        return earliest

    def _find_cut(self) -> int:
        """Return the position for a cut in a very long line. It is not inside a secret or a character."""
        held = self._pending
        cut = len(held) - _LEAST_HELD_BYTES
        for span in self._find(held):
            if span.start < cut < span.end:
                cut = span.start if span.start >= _LEAST_HELD_BYTES else len(held)
        while cut < len(held) and held[cut] & 0xC0 == 0x80:
            cut -= 1
        return cut

    def _release(self, size: int) -> str:
        if not size:
            return ""
        examined = self._released + self._pending[:size]
        if spans := self._find(examined):
            fresh = mask(replace_spans(examined, spans, len(self._released)), self._find)
        else:
            fresh = examined[len(self._released) :]
        self._pending = self._pending[size:]
        line = max(examined.rfind(b"\n"), examined.rfind(b"\r")) + 1
        self._released = examined[max(line, len(examined) - _CONTEXT_BYTES) :]
        return fresh.decode("utf-8", "surrogatepass")


def _find_open_key(pending: bytes, lines_end: int) -> int | None:
    """Return the start of an unfinished private key, or of a part of such a key. Return None if there is
    neither.
    """
    lines, at = pending[:lines_end], 0
    while b"PRIVATE KEY" in lines and (begin := BEGIN.search(lines, at)) is not None:
        end, may_go_on = find_block_end(lines, begin.end())
        if may_go_on:
            return begin.start() if len(pending) - begin.start() <= MOST_BYTES else None
        at = end or begin.end()
    return find_open_body(lines)


SHORTEST_VALUE = 8

_NO_NAME = re.compile(r"[^A-Za-z0-9_.$-]")
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class TextMasker:
    """Masks known values and all text that looks like a secret. Masked text does not change."""

    def __init__(
        self,
        values: Iterable[str] = (),
        named: Iterable[tuple[str, str]] = (),
        references: References | None = None,
        pairs: Iterable[tuple[str, str]] = (),
    ) -> None:
        """`values` are exact values, `named` are pairs of a name and a value. Values need 8 characters or
        more.

        In `pairs`, a value is masked only directly after its name. Such a value may be short or a common
        word.
        """
        self.references = References() if references is None else references
        known = {form: "value" for value in values for form in _list_forms(value)}
        plain: dict[bytes, str] = {}
        for name, value in named:
            label = make_value_label(name)
            known.update(dict.fromkeys(_list_forms(value), label))
            plain[_encode(value)] = label
        for value, label in self.references.exact_values:
            known.update(dict.fromkeys((*_list_forms(value), _encode(value)), label))
            plain[_encode(value)] = label
        self._pairs: list[tuple[bytes, re.Pattern[bytes], str]] = []
        for name, value in dict.fromkeys(pairs):
            label = make_value_label(name)
            plain.setdefault(_encode(value), label)
            self._pairs.append((_encode(name), compile_pair(name, value), label))
        self._known = tuple(known.items())
        self._longest = max(map(len, known), default=0)
        self._plain = _keep_unique_labels(plain)

    def text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        result = mask(data, self.find_spans)
        return text if result is data else result.decode("utf-8", "surrogatepass")

    def data(self, data: bytes) -> bytes:
        """Mask bytes of any encoding. All bytes except the secrets stay unchanged."""
        wide = _WIDE.get(data[:2])
        if wide is None or len(data) % 2:
            return mask(data, self.find_spans)
        text = data.decode(wide, "surrogatepass")
        result = self.text(text)
        return data if result is text else result.encode(wide, "surrogatepass")

    def windows(self, read: Callable[[int, int], bytes], size: int) -> Iterator[bytes]:
        """Mask `size` bytes. `read(start, count)` returns the bytes. The result is the same as that of
        `data`.
        """
        if read(0, 2) in _WIDE:
            yield self.data(read(0, size))
        else:
            yield from mask_windows(read, size, self.find_spans, self._longest)

    def stream(self) -> StreamMasker:
        return StreamMasker(self.find_spans, [value for value, _ in self._known])

    def find_spans(self, data: bytes) -> list[SecretSpan]:
        """Return the secrets in the order of their positions. They do not overlap."""
        folded = data.translate(FOLD)
        found = [*self._find_known_values(data), *self._find_pairs(data)]
        found += [*find_key_blocks(data), *find_key_parts(data)]
        found += find_formatted_keys(data, folded)
        found += find_header_values(data, folded)
        found += find_url_secrets(data)
        found += find_user_flag_passwords(data)
        found += find_named_values(data, folded)
        return self._add_value_marks(merge_spans(drop_placeholder_spans(found, data)), data) if found else []

    def holds_secret(self, data: bytes) -> bool:
        """Return whether the bytes certainly hold a known value, a private key or a known key format."""
        certain = (
            self._find_known_values(data),
            find_key_blocks(data),
            find_formatted_keys(data, data.translate(FOLD)),
        )
        return any(True for spans in certain for _ in spans)

    def find_secrets_by_label(self, text: str) -> dict[str, set[str]]:
        """Return the secrets in a text, by the label of their placeholder."""
        found: dict[str, set[str]] = {}
        data = text.encode("utf-8", "surrogatepass")
        # Only the first pass counts: later passes find text that looks like a secret only beside a
        # placeholder.
        for span in self.find_spans(data):
            found.setdefault(span.label, set()).add(data[span.start : span.end].decode("utf-8", "replace"))
        return found

    def find_values(self, label: str) -> set[str]:
        """Return the known values with this label, and the values that were masked under this label."""
        known = {value.decode("utf-8", "replace") for value, own in self._plain.items() if own == label}
        return known | self.references.find_values(label)

    def learn(self, text: str) -> None:
        pass

    def describe_access(self, placeholder: str) -> str:
        return ""

    def _add_value_marks(self, spans: list[SecretSpan], data: bytes) -> list[SecretSpan]:
        """Add a mark of the value to each label, so that one placeholder always means one value."""
        if not self.references.has_key:
            return spans
        return [
            replace(span, label=self._plain.get(text) or self.references.make_label(span.label, text))
            for span in spans
            for text in (data[span.start : span.end],)
        ]

    def _find_pairs(self, data: bytes) -> Iterator[SecretSpan]:
        for name, pattern, label in self._pairs:
            for found in find_matches_at(pattern, data, name):
                yield SecretSpan(*found.span("value"), label)

    def _find_known_values(self, data: bytes) -> Iterator[SecretSpan]:
        for value, label in self._known:
            at = data.find(value)
            while at >= 0:
                yield SecretSpan(at, at + len(value), label)
                at = data.find(value, at + len(value))


def _list_forms(value: str) -> Iterator[bytes]:
    """Yield the encoded forms of a value: plain, in JSON, in a URL and in base64. Long values are split into
    lines.
    """
    lines = value.split("\n") if "\n" in value else [value]
    for line in (one.strip() for one in lines):
        if len(line) < (SHORTEST_VALUE if len(lines) == 1 else 16) or line.startswith("-----"):
            continue
        plain = line.encode("utf-8", "surrogatepass")
        yield plain
        yield json.dumps(line)[1:-1].encode()
        yield quote(plain, safe="").encode()
        yield quote_plus(plain).encode()
        yield base64.b64encode(plain).rstrip(b"=")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def make_value_label(name: str) -> str:
    return f"value of {_NO_NAME.sub('', name)[:64]}"


def _keep_unique_labels(labels: dict[bytes, str]) -> dict[bytes, str]:
    counts = Counter(labels.values())
    return {value: label for value, label in labels.items() if counts[label] == 1}
