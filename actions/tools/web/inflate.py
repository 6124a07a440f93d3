"""Unpacks compressed bodies in pieces of a limited size."""

import zlib

PACKED = frozenset({"gzip", "x-gzip", "deflate"})


class Damaged(ValueError):
    """The data is not compressed in the announced way."""


class UnknownEncoding(ValueError):
    """A body has an encoding that no request accepts."""


class Inflater:
    """Unpacks one body. A body that is not packed stays unchanged."""

    def __init__(self, encoding: str) -> None:
        """`encoding` is the value of `Content-Encoding`. Raises `UnknownEncoding`."""
        names = set(encoding.replace(" ", "").lower().split(",")) - {"", "identity"}
        if len(names) > 1 or not names <= PACKED:
            raise UnknownEncoding(encoding[:80])
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 32) if names else None
        self._is_first = True

    @property
    def is_cut(self) -> bool:
        """Return whether the data so far is incomplete."""
        return self._inflater is not None and not self._inflater.eof and not self._is_first

    def feed(self, data: bytes, room: int) -> bytes:
        """Return the unpacked `data`. Of packed data, return at most `room + 1` bytes. Raises `Damaged`."""
        if self._inflater is None:
            return data
        found = bytearray()
        while data and len(found) <= room:
            found += self._step(data, room + 1 - len(found))
            data = self._inflater.unconsumed_tail
            if self._inflater.eof:
                data = self._inflater.unused_data
                if not data.startswith(b"\x1f\x8b"):
                    break  # data after the last member has no meaning
                self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
        return bytes(found)

    def _step(self, data: bytes, room: int) -> bytes:
        assert self._inflater is not None
        try:
            unpacked = self._inflater.decompress(data, room)
        except zlib.error:
            if not self._is_first:
                raise Damaged("damaged") from None
            # Many servers send `deflate` without its frame.
            self._inflater, self._is_first = zlib.decompressobj(-zlib.MAX_WBITS), False
            return self._step(data, room)
        self._is_first = False
        return unpacked
