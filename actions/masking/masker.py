"""Takes secrets out of text where it enters, so that model, store, logs, exports and screen see the same."""

import base64
import codecs
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from actions.masking.formats import FOLD, format_spans
from actions.masking.headers import header_spans, url_spans, user_flag_spans
from actions.masking.key_blocks import key_block_spans
from actions.masking.names import named_spans
from actions.masking.span import PLACEHOLDER as PLACEHOLDER
from actions.masking.span import Span, masked, merged, outside_placeholders
from actions.masking.stream import StreamMasker

SHORTEST_VALUE = 8

_NO_NAME = re.compile(r"[^A-Za-z0-9_.$-]")
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Masker:
    """Masks known values, and whatever looks like a secret; what was masked once stays as it is."""

    def __init__(self, values: Iterable[str] = (), named: Iterable[tuple[str, str]] = ()) -> None:
        """Take exact `values`, and `named` ones with their names; those under 8 characters are ignored."""
        known = {form: "value" for value in values for form in _forms(value)}
        for name, value in named:
            label = f"value of {_NO_NAME.sub('', name)[:64]}"
            known.update(dict.fromkeys(_forms(value), label))
        self._known = tuple(known.items())

    def text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        result = masked(data, self.spans)
        return text if result is data else result.decode("utf-8", "surrogatepass")

    def data(self, data: bytes) -> bytes:
        """Mask bytes of any encoding; all but the secrets stays as it is."""
        wide = _WIDE.get(data[:2])
        if wide is None or len(data) % 2:
            return masked(data, self.spans)
        text = data.decode(wide, "surrogatepass")
        result = self.text(text)
        return data if result is text else result.encode(wide, "surrogatepass")

    def stream(self) -> StreamMasker:
        """Return one for live output, where a secret may come in pieces."""
        return StreamMasker(self.spans, [value for value, _ in self._known])

    def spans(self, data: bytes) -> list[Span]:
        """Return the secrets in order, none overlapping another."""
        folded = data.translate(FOLD)
        found = [*self._known_spans(data), *key_block_spans(data), *format_spans(data, folded)]
        found += header_spans(data, folded)
        found += url_spans(data)
        found += user_flag_spans(data)
        found += named_spans(data, folded)
        return merged(outside_placeholders(found, data)) if found else []

    def _known_spans(self, data: bytes) -> Iterator[Span]:
        for value, label in self._known:
            at = data.find(value)
            while at >= 0:
                yield Span(at, at + len(value), label)
                at = data.find(value, at + len(value))


def _forms(value: str) -> Iterator[bytes]:
    """Yield how a value is written: as it is, in JSON, in a URL, in base64; line by line if it has many."""
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
