"""The key of this machine, and its seals over the hash chain, which do not match records that were changed
later.

The key is created once, outside of every store, and only its owner can read it.
"""

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from ..databases.chain import Chain, insert_row, make_first_digest
from ..databases.database import Database, Sealer, Statement, update
from ..databases.high_water import HighWater
from ..databases.schema import SCHEMA_VERSION
from ..errors import StoreError
from ..process.crashpoints import reach

_COLUMNS = ("n", "maker", "since", "records", "mac")


class Seal(NamedTuple):
    """The code that a key computes for a part of a session's records, and so for all records before it."""

    n: int
    """The number of the seal among the seals of the session."""
    maker: str
    """The name of the key, which reveals nothing about the key."""
    since: int
    """The first record of the part."""
    records: int
    """The number of records at the end of the part."""
    mac: str


class SealedPart(NamedTuple):
    """A part of the records that one key sealed."""

    since: int
    until: int
    """The first record after the part."""
    maker: str
    """The name of the key; empty if the records were written without a key."""
    is_ours: bool


class BrokenSeal(NamedTuple):
    record: int
    """The last record that the seal covers; -1 if it is unknown."""
    problem: str
    is_newest: bool
    """Whether the seal is the newest. It is False if this machine sealed later records although this seal was
    broken.
    """


class KeySealer:
    """The key of this machine, and how many records of each session in a store it has sealed.

    The numbers are stored beside the key, so that a change of the store cannot change them.
    """

    def __init__(self, home: Path, store: str) -> None:
        self._home = home
        self._store = store
        self._key: bytes | None = None
        self._marks = HighWater(key_path(home))

    def key(self) -> bytes:
        """Return the key; create it if there is none."""
        if self._key is None:
            self._key = load_or_make_key(self._home)
        return self._key

    def find_key(self) -> bytes | None:
        """Return the key, or None if there is none."""
        if self._key is None:
            self._key = find_key(self._home)
        return self._key

    def write_mark(self, session_id: str, records: int) -> None:
        """Record how many records are sealed. -1 means that the session was deleted."""
        self._marks.write_number(self._name(session_id), records)
        if records < 0:
            self._marks.write(self._name_verified_note(session_id), None)

    def read_mark(self, session_id: str) -> int:
        """Return the last recorded number, or -1 if there is none."""
        return self._marks.read_number(self._name(session_id))

    def note_verified(
        self, session_id: str, end: tuple[int, str] | None, body: str, loaded: str = ""
    ) -> None:
        """Record that all records up to `end` are verified. If `end` is None, remove the note."""
        loaded = loaded or _NOT_LOADED
        text = None if end is None else self._make_verified_note(self.key(), session_id, end, body, loaded)
        self._marks.write(self._name_verified_note(session_id), text)

    def read_verified(self, session_id: str, end: tuple[int, str], body: str) -> str | None:
        """Return the value `loaded` of this note, or None if there is no valid note. Writing a valid note
        needs the key.
        """
        kept, key = self._marks.read(self._name_verified_note(session_id)), self.find_key()
        loaded = kept[: len(_NOT_LOADED)].decode("ascii", "replace")
        if key is None or not hmac.compare_digest(
            kept, self._make_verified_note(key, session_id, end, body, loaded)
        ):
            return None
        return "" if loaded == _NOT_LOADED else loaded

    def _make_verified_note(
        self, key: bytes, session_id: str, end: tuple[int, str], body: str, loaded: str
    ) -> bytes:
        parts = (self._store, body, str(SCHEMA_VERSION), session_id, str(end[0]), end[1], loaded)
        return (loaded + _make_code(key, b"sandbur whole", parts)).encode()

    def _name_verified_note(self, session_id: str) -> str:
        return f"{self._name(session_id)}\nwhole"

    def _name(self, session_id: str) -> str:
        # Two stores may contain the same session, for example as an older and a newer copy.
        return f"{self._store}\n{session_id}"


def write_marks(database: Database, session_id: str, records: int) -> None:
    """Record outside of the database how many records the session has. -1 means that the session was
    deleted.
    """
    database.write_mark(session_id, records)
    if database.sealer is not None:
        database.sealer.write_mark(session_id, records)


def name_maker(key: bytes) -> str:
    """Return the name of a key."""
    return hashlib.blake2b(b"name", key=key, digest_size=8, person=b"sandbur seal").hexdigest()


def make_mac(key: bytes, session_id: str, seal: Seal, digest: str, before: str) -> str:
    """Return the code of a seal. It covers the chain up to `digest`, and the code `before` it."""
    parts = (session_id, str(seal.n), str(seal.since), str(seal.records), digest, before)
    return _make_code(key, b"sandbur seal", parts)


def make_limit_code(key: bytes, kind: str, name: str, values: Sequence[int]) -> str:
    """Return the code of a limit of workers with these values."""
    return _make_code(key, b"sandbur limit", (kind, name, *map(str, values)))


def _make_code(key: bytes, purpose: bytes, parts: Sequence[str]) -> str:
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.blake2b(
        text.encode("utf-8", "surrogatepass"), key=key, digest_size=20, person=purpose
    ).hexdigest()


AT_REST = "done"
"""The status of a session without pending calls."""


_NOT_LOADED = "-" * 40


def note_verified(database: Database, session_id: str, end: Chain | None, loaded: str = "") -> None:
    """Record that the records up to `end` need no check when the session is opened. If `end` is None, they
    need one.

    `loaded` is a digest of the rows that are read when the session is opened. These rows are compared with
    it.
    """
    if database.sealer is not None:
        database.sealer.note_verified(session_id, end, database.body, loaded)


def read_verified(database: Database, session_id: str) -> str | None:
    """Return the digest of the rows that are read when a session is opened, if its records need no check.

    They need none if its last run ended on this machine without pending calls, no process has written since,
    and all records were valid then. Return an empty text if the digest is unknown, and None if a check is
    needed.
    """
    end = find_end_at_rest(database, session_id)
    sealer = database.sealer
    if end is None or sealer is None or database.read_mark(session_id) > end.records:
        return None
    return sealer.read_verified(session_id, end, database.body)


def find_end_at_rest(database: Database, session_id: str) -> Chain | None:
    """Return the end of the chain if no process runs the session and its last run is done; else None."""
    rows = database.query(
        # A worker that claimed it has not begun a run: that changes the status.
        "SELECT records, chain FROM heads WHERE session_id = ? AND status = ?",
        (session_id, AT_REST),
    )
    return Chain(int(rows[0][0]), str(rows[0][1])) if rows else None


def load_head_with_seals(database: Database, session_id: str) -> tuple[Chain, list[Seal]] | None:
    """Return the end of the chain and its seals, read at the same moment, or None if there is no such
    session.
    """
    rows = database.query(
        "SELECT h.records, h.chain, s.n, s.maker, s.since, s.records, s.mac FROM heads h"
        " LEFT JOIN seals s ON s.session_id = h.session_id WHERE h.session_id = ? ORDER BY s.n",
        (session_id,),
    )
    if not rows:
        return None
    chain = Chain(int(rows[0][0]), str(rows[0][1]))
    return chain, [
        Seal(int(n), str(maker), int(since), int(end), str(mac))
        for _, _, n, maker, since, end, mac in rows
        if n is not None
    ]


class SealedEnd:
    """The seal at the end of a session's chain. Every commit of this process moves it forward."""

    def __init__(self, database: Database, session_id: str, chain: Chain, seals: list[Seal]) -> None:
        self._sealer = database.sealer
        self._session_id = session_id
        self._seals = seals
        self._chain = chain
        self._goes_on: bool | None = None
        """Whether the last seal belongs to this key and is valid. Checked when records are sealed."""

    def advance(self, chain: Chain) -> tuple[list[Statement], list[Seal]]:
        """Return the statements that seal the chain up to its new end, and the seals after that commit."""
        if self._sealer is None or chain == self._chain:
            return [], self._seals
        key, seals = self._sealer.key(), self._seals
        mine = {"session_id": self._session_id}
        if self._goes_on is None:
            self._goes_on = _holds(key, self._session_id, seals, self._chain)
        if self._goes_on:
            seal = seals[-1]._replace(records=chain.records)
            seal = seal._replace(mac=_make_mac_after(seals[:-1], key, self._session_id, seal, chain.digest))
            new = {"records": seal.records, "mac": seal.mac}
            return [update("seals", new, {**mine, "n": seal.n})], [*seals[:-1], seal]
        # This is a new session, another machine's key, records without a key, or a changed seal. The old seal
        # stays, and the number of a missing seal is never used again.
        lost = _count_lost(self._sealer, key, self._session_id, seals, self._chain)
        seal = _make_seal(key, self._session_id, seals, self._chain.records, chain, int(lost > 0))
        return [insert_row("seals", (self._session_id, *seal))], [*seals, seal]

    def confirm(self, chain: Chain, seals: list[Seal]) -> None:
        self._goes_on = None if seals is self._seals else True
        self._chain, self._seals = chain, seals


def _make_seal(
    key: bytes, session_id: str, before: Sequence[Seal], since: int, chain: Chain, gap: int = 0
) -> Seal:
    n = before[-1].n + 1 if before else 0
    seal = Seal(n + gap, name_maker(key), since, chain.records, "")
    return seal._replace(mac=_make_mac_after(before, key, session_id, seal, chain.digest))


def _make_mac_after(before: Sequence[Seal], key: bytes, session_id: str, seal: Seal, digest: str) -> str:
    return make_mac(key, session_id, seal, digest, before[-1].mac if before else "")


def _holds(key: bytes, session_id: str, seals: Sequence[Seal], chain: Chain) -> bool:
    """Return whether the last seal has this key and matches this end of the chain."""
    if not seals:
        return False
    *before, seal = seals
    if (seal.maker, seal.records) != (name_maker(key), chain.records):
        return False
    return hmac.compare_digest(seal.mac, _make_mac_after(before, key, session_id, seal, chain.digest))


def insert_seals(
    database: Database, session_id: str, seals: Sequence[Seal], came: int, chain: Chain
) -> Iterator[Statement]:
    """Yield the statements that store an imported session's seals, and a new seal for added records.

    `came` is the number of imported records.
    """
    yield from (insert_row("seals", (session_id, *seal)) for seal in seals)
    if database.sealer is not None and chain.records:
        key = database.sealer.key()
        if not _holds(key, session_id, seals, chain):
            yield insert_row("seals", (session_id, *_make_seal(key, session_id, seals, came, chain)))


def find_broken_seals(
    database: Database, session_id: str, chain: Chain, seals: Sequence[Seal], digests: Mapping[int, str]
) -> list[BrokenSeal]:
    """Compare the seals with the chain. `digests` are the digests of the records by number."""
    sealer = database.sealer
    key = sealer.find_key() if sealer is not None else None
    found: list[BrokenSeal] = []
    ends = 0
    for at, seal in enumerate(seals):
        if at and seal.since > ends:
            found.append(BrokenSeal(seal.since - 1, _UNSEALED, False))
        if seal.n > (seals[at - 1].n + 1 if at else 0):
            found.append(BrokenSeal(seal.since - 1, "and those before it had a seal that is gone", False))
        ends = seal.records
        if key is None or seal.maker != name_maker(key):
            continue
        digest = digests.get(seal.records - 1) if seal.records else make_first_digest(session_id)
        if digest is None or not _holds(key, session_id, seals[: at + 1], Chain(seal.records, digest)):
            found.append(BrokenSeal(seal.records - 1, CHANGED, at == len(seals) - 1))
    if seals and ends < chain.records:
        found.append(BrokenSeal(chain.records - 1, _UNSEALED, True))
    if sealer is not None and key is not None:
        lost = _count_lost(sealer, key, session_id, seals, chain)
        found += [BrokenSeal(lost - 1, "and those before it had a seal that is gone", True)] if lost else []
    return found


def _count_lost(sealer: Sealer, key: bytes, session_id: str, seals: Sequence[Seal], chain: Chain) -> int:
    """Return the number of records that this machine sealed, if their seal is missing; otherwise 0."""
    marked = min(sealer.read_mark(session_id), chain.records)
    ours = max((seal.records for seal in seals if seal.maker == name_maker(key)), default=-1)
    return max(marked, 0) if ours < marked else 0


CHANGED = "and those before it are not what was sealed with this machine's key"
_UNSEALED = "was written without a key, after records that were sealed with one"


def list_sealed_parts(database: Database, chain: Chain, seals: Sequence[Seal]) -> list[SealedPart]:
    """Return the parts of the records, from the first to the last, with the key that sealed each."""
    key = database.sealer.find_key() if database.sealer is not None else None
    ours = name_maker(key) if key is not None else ""
    found: list[SealedPart] = []
    at = 0
    for seal in seals:
        if seal.since > at:
            found.append(SealedPart(at, seal.since, "", False))
        if seal.records > seal.since:
            found.append(SealedPart(seal.since, seal.records, seal.maker, seal.maker == ours))
        at = max(at, seal.records)
    if at < chain.records:
        found.append(SealedPart(at, chain.records, "", False))
    return found


def export_seals(seals: Sequence[Seal]) -> list[list[Any]]:
    return [list(seal) for seal in seals]


def parse_seals(value: Any) -> list[Seal] | None:
    """Return the seals in the result of `export_seals`, or None if the value is not valid."""
    if not isinstance(value, list):
        return None
    found: list[Seal] = []
    for row in cast(list[Any], value):
        if not isinstance(row, list) or [type(part) for part in cast(list[Any], row)] != _TYPES:
            return None
        seal = Seal(*cast(list[Any], row))
        fits = (found[-1].n if found else -1) < seal.n < _MOST and 0 <= seal.since <= seal.records < _MOST
        if not fits or not _is_hex(seal.maker, 16) or not _is_hex(seal.mac, 40):
            return None
        found.append(seal)
    return found


_TYPES = [int, str, int, int, str]
_MOST = 10**12


def _is_hex(text: str, length: int) -> bool:
    return len(text) == length and not text.strip("0123456789abcdef")


KEY_BYTES = 32
_NAME = "store.key"
_MOST_BYTES = 1000


def key_path(home: Path) -> Path:
    """Return the path of the key in this data folder. The file may not exist."""
    return home / _NAME


def load_or_make_key(home: Path) -> bytes:
    """Return the key. The first call creates it durably.

    Use it only to derive keys, with a purpose: `blake2b(key=load_or_make_key(home), person=b"purpose")`.
    """
    while (key := find_key(home)) is None:
        try:
            _write_new_key(key_path(home))
        except OSError as error:
            raise StoreError(
                f"The key of the store cannot be written to {key_path(home)}: {error.strerror}.",
                "Make the folder writable, or name another one with SANDBUR_HOME.",
            ) from None
    return key


def find_key(home: Path) -> bytes | None:
    """Return the key, or None if there is none. Raises `StoreError` for a file without a valid key."""
    path = key_path(home)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _make_key_error(path, f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _make_key_error(path, "is not a regular file")
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o077:
            with suppress(OSError):  # it is another owner's, or on a file system that is read only
                os.fchmod(descriptor, mode & 0o700)
        return _parse_key(path, file.read(_MOST_BYTES))


def _parse_key(path: Path, content: bytes) -> bytes:
    try:
        key = bytes.fromhex(content.decode())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise _make_key_error(path, "does not contain a key")
    return key


def _make_key_error(path: Path, why: str) -> StoreError:
    return StoreError(
        f"The key of the store {path} {why}.",
        "Restore it from a backup. If you remove it, a new key is made, and earlier records count as"
        " made with another key.",
    )


def _write_new_key(path: Path) -> None:
    """Write a new key file atomically; an existing file stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(6)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(KEY_BYTES).encode() + b"\n")
            file.flush()
            os.fsync(descriptor)
        reach("key_written")
        _link_key(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _link_key(temporary: Path, path: Path) -> None:
    try:
        # A link is used, because a rename would replace the key that another process has just created.
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError:
        # The file system does not support links.
        if not path.exists():
            temporary.replace(path)
