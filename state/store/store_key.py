"""The key of this machine's records: made once, kept outside of every store, readable by its owner alone."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from ..crashpoints import reach
from ..errors import StoreError

KEY_BYTES = 32
_NAME = "store.key"
_MOST_BYTES = 1000


def key_path(home: Path) -> Path:
    """Return where the key of this data folder lies; it need not exist yet."""
    return home / _NAME


def store_key(home: Path) -> bytes:
    """Return the key; the first call makes it, and returns when a power loss cannot take it any more.

    It is for deriving: name the purpose, as in `blake2b(key=store_key(home), person=b"what for")`.
    """
    while (key := known_key(home)) is None:
        try:
            _make(key_path(home))
        except OSError as error:
            raise StoreError(
                f"The key of the store cannot be written to {key_path(home)}: {error.strerror}.",
                "Make the folder writable, or name another one with SANDBUR_HOME.",
            ) from None
    return key


def known_key(home: Path) -> bytes | None:
    """Return the key; None while there is none. Raises `StoreError` for a file that holds no key."""
    path = key_path(home)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unusable(path, "is no regular file")
        if stat.S_IMODE(status.st_mode) & 0o077:
            with suppress(PermissionError):
                os.fchmod(descriptor, 0o600)
        return _parsed(path, file.read(_MOST_BYTES))


def _parsed(path: Path, content: bytes) -> bytes:
    try:
        key = bytes.fromhex(content.decode())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise _unusable(path, "holds no key")
    return key


def _unusable(path: Path, why: str) -> StoreError:
    return StoreError(
        f"The key of the store {path} {why}.",
        "Restore it from a backup. If you remove it a new one is made, and the records of before count as"
        " made with another key.",
    )


def _make(path: Path) -> None:
    """Write a new key such that it is there as a whole or not at all; one that is there already stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(6)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(KEY_BYTES).encode() + b"\n")
            file.flush()
            os.fsync(descriptor)
        reach("key_written")
        _name_it(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _name_it(temporary: Path, path: Path) -> None:
    try:
        # A link, because a rename would replace the key of another process that was faster.
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError:
        # A file system without links.
        if not path.exists():
            temporary.replace(path)
