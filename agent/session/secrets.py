"""The known secrets of a session: values from the environment and from the `.env` files of its folder."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

from ...actions.masking.key_formats import LABEL as PRIVATE_KEY
from ...actions.masking.late_pattern import LatePattern
from ...actions.masking.masker import StreamMasker, TextMasker, make_value_label
from ...actions.masking.named_values import is_placeholder, is_quoted_secret, is_random, is_ruled_out
from ...actions.masking.references import References
from ...actions.ports import Masker, Ports
from ...actions.turn.model_call import Model, refusal_of
from ...actions.turn.user_code import read_text
from ...actions.workspace.paths import format_size, make_absolute
from ...actions.workspace.protected.secret_files import is_secret_file
from ...state.application import TOKENS_PER_BYTE
from ...state.conversation.attachments import AttachedFile, Document
from ...state.conversation.messages import UserContent, encodable, require_content
from ...state.errors import ConfigError, UsageError
from ..config.paths import read_bytes

_SETTING = LatePattern(r"[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,127})[ \t]*[=:][ \t]*")
_DOUBLE = LatePattern(r'"(?P<value>(?:[^"\\]|\\.)*+)"', re.DOTALL)
_SINGLE = LatePattern(r"'(?P<value>[^']*+)'")
_COMMENT = LatePattern(r"[ \t]#.*\Z")
_ESCAPE = LatePattern(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


def settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each setting in a text. Other lines are ignored."""
    at = 0
    while at < len(text):
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        found = _SETTING.match(text, at, line_end)
        if found is None:
            at = line_end + 1
            continue
        value, end = _value(text, found.end(), line_end)
        yield found["name"], value
        at = text.find("\n", end) + 1 or len(text)


def _value(text: str, start: int, line_end: int) -> tuple[str, int]:
    """Return a value, and the position of its end."""
    if (quoted := _DOUBLE.match(text, start)) is not None:
        value = _ESCAPE.sub(lambda one: _ESCAPED.get(one[1], one[1]), quoted["value"])
        return value, quoted.end()
    if (quoted := _SINGLE.match(text, start)) is not None:
        return quoted["value"], quoted.end()
    return _COMMENT.sub("", text[start:line_end]).strip(), line_end


MOST_FILES = 32
MOST_FILE_BYTES = 262_144
MOST_SETTINGS = 5000
MOST_VALUES = 500

_SECRET_NAME = LatePattern(
    r"(?i)passw(?:or)?d|passphrase|passcode|pwd|(?:^|_)pass(?:_|$)|secret|token|credential|_?auth(?:_|$)"
    r"|(?:api|access|private|account|encryption|signing|master|storage|license)_?key|(?:^|_)key(?:_\d+)?$"
    r"|(?:^|_)(?:salt|dsn|webhook|sas|jwt|cookie)(?:_|$)|connection_?string"
)
_WEAK_NAME = LatePattern(
    r"(?i)[a-z]{1,4}(?:_?\d+)?"
    r"|(?!.*(?:api|access|private|account|encryption|signing|master|storage|license|secret|token|passw|auth))"
    r".*_key(?:_\d+)?"
)
"""Names that are weak evidence: a value under such a name is a secret only if it also looks like one."""
_PASSWORD_NAME = LatePattern(
    r"(?i)passw(?:or)?d|passphrase|passcode|pwd|(?:^|_)pass(?:_|$)|(?:^|_)(?:pin|otp|cvv|cvc)(?:_?code)?(?:_|$)"
)
_JOINED = LatePattern(r"\w[-_. ]\w")
_SHORT_VALUE = LatePattern(r"[A-Za-z0-9!@#%^*?+._-]{3,64}")
_NO_VALUE = LatePattern(
    r"(?i)true|false|yes|no|on|off|none|null|nil|undefined|enabled|disabled|required|optional|auto|default"
)
_NO_SECRET_NAME = LatePattern(
    r"(?i)_(?:file|path|dir|name|id|ids|type|length|size|ttl|expiry|expires|expire|timeout|limit|count|header"
    r"|prefix|host|port|user|username|enabled|algorithm|region|version|program|socket|sock|ask|required?)$"
    r"|^(?:pwd|oldpwd|max_tokens|ssh_auth_sock|ssh_askpass|git_askpass|xauthority|sandbur_call)$|public_?key|askpass"
)
_CREDENTIALS = LatePattern(r"[a-z][a-z0-9+.-]{0,30}://[^\s/:@]{0,256}:(?P<password>[^\s/]{8,512})@")
_WORD = LatePattern(r"[A-Za-z]{1,12}(?:[-_. ][A-Za-z]{1,12})?")
_TEMPLATES = ("example", "sample", "template", "dist", "schema", "defaults")


class SecretMasker:
    """Masks texts that look like secrets, and the current secret values of the environment and the `.env`
    files."""

    def __init__(
        self, env: Mapping[str, str], cwd: Path, references: References, withheld: frozenset[str]
    ) -> None:
        """Take the environment, and the names `withheld` of variables that are secret in any case."""
        self.references = references
        self._environment = _environment_secrets(tuple(env.items()), withheld)
        self._withheld = withheld
        self._cwd = cwd
        self._folder_seen: tuple[int, ...] = ()
        self._files: tuple[Path, ...] = ()
        self._seen: tuple[object, ...] = ()
        self._in_files: dict[str, Path] = {}
        """Name of a setting -> the last file that sets it."""
        self._learned: dict[Path, tuple[int, ...]] = {}
        self._learned_pairs: dict[Path, tuple[tuple[str, str], ...]] = {}
        self._masker = TextMasker(named=self._environment, references=references)

    def text(self, text: str) -> str:
        return self._current().text(text)

    def data(self, data: bytes) -> bytes:
        return self._current().data(data)

    def windows(self, read: Callable[[int, int], bytes], size: int) -> Iterator[bytes]:
        """Mask data that is read in pieces, with the values that are known now; yield the masked pieces."""
        return self._current().windows(read, size)

    def stream(self) -> StreamMasker:
        """Return a masker for output that still grows, with the values that are known now."""
        return self._current().stream()

    def holds_secret(self, data: bytes) -> bool:
        return self._current().holds_secret(data)

    def find_secrets_by_label(self, text: str) -> dict[str, set[str]]:
        return self._current().find_secrets_by_label(text)

    def find_values(self, label: str) -> set[str]:
        return self._current().find_values(label)

    def learn(self, text: str) -> None:
        for word in set(_PATH_WORD.findall(text[:MOST_FILE_BYTES])):
            if is_secret_file(word):
                path = make_absolute(word, self._cwd)
                if (version := _version(path)) and self._learned.get(path) != version:
                    self._learned[path] = version
                    self.references.exact_values.update(islice(_in_secret_file(path), MOST_VALUES))
                    self._learned_pairs[path] = tuple(islice(_short_secrets(_settings_in(path)), MOST_VALUES))

    def describe_access(self, placeholder: str) -> str:
        """Describe how a command can use the value of a placeholder; empty if unknown."""
        self._current()
        label = placeholder.removeprefix("[masked ").removesuffix("]")
        for name in (name for name, _ in self._environment if make_value_label(name) == label):
            if name in self._withheld:
                return f"Commands do not get {name}: this program uses it as its own key"
            return f'Write "${name}" instead: the variable is set'
        for name, path in self._in_files.items():
            if make_value_label(name) == label:
                file = quote(str(path.relative_to(self._cwd)))
                return f'Write "${name}" instead, after: set -a; . ./{file}; set +a'
        return ""

    def _current(self) -> TextMasker:
        """Return a masker for the present files. If no file changed, this costs a few calls of `stat`."""
        if (folder := _version(self._cwd)) != self._folder_seen:
            self._folder_seen = folder
            self._files = _environment_files(self._cwd)
        learned = self._learned_pairs.values()
        seen = (
            *((path, _version(path)) for path in self._files), len(self.references.exact_values), *learned,
        )  # fmt: skip
        if seen != self._seen:
            self._seen = seen
            read = [(path, tuple(_settings_in(path))) for path in self._files]
            found = [(path, *pair) for path, pairs in read for pair in _secrets(pairs, True)]
            short = [pair for _, pairs in read for pair in _short_secrets(pairs)]
            self._in_files = {name: path for path, name, _ in found}
            named = (*((name, value) for _, name, value in found[:MOST_VALUES]), *self._environment)
            pairs = islice((*short, *(pair for one in learned for pair in one)), MOST_VALUES)
            self._masker = TextMasker(named=named, references=self.references, pairs=pairs)
        return self._masker


_PATH_WORD = LatePattern(r"[\w./~@%+-]{3,512}")
_KEY_LINE = LatePattern(r"[A-Za-z0-9+/=]{16,512}")


def _in_secret_file(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the secrets of a file with their labels: the lines of a private key, or values of settings."""
    try:
        found = read_bytes(path, MOST_FILE_BYTES)
    except ConfigError:
        return
    text = "" if found is None else found[0].decode("utf-8-sig", "replace")
    if "PRIVATE KEY" in text:
        yield from ((line, PRIVATE_KEY) for line in text.split() if _KEY_LINE.fullmatch(line))
    else:
        yield from ((value, make_value_label(name)) for name, value in _secrets(settings(text), is_file=True))


def masker_for(
    env: Mapping[str, str], cwd: Path, key: bytes = b"", withheld: frozenset[str] = frozenset()
) -> SecretMasker:
    """Return the masker of a session. With a `key`, tools can replace its placeholders by the values
    again."""
    return SecretMasker(env, cwd, References(key), withheld)


def describe_error(error: BaseException, folder: Path = Path("/")) -> str:
    """Return the type and the text of an error of foreign code, without secrets: of this process's
    environment, of the folder's files of secrets, and those that are recognized by their form.
    """
    return mask_report(f"{type(error).__name__}: {read_text(error)}", folder)


def mask_report(text: str, folder: Path = Path("/")) -> str:
    """Return a text about a failure without secrets, as `describe_error` does."""
    return masker_for(os.environ, folder).text(text)


def masker_for_display(cwd: str) -> SecretMasker:
    """Return a masker for records of a folder. Its placeholders show which values are the same."""
    return masker_for(os.environ, Path(cwd), _display_key())


@cache
def _display_key() -> bytes:
    return os.urandom(32)


def says_secret(name: str) -> bool:
    """Return whether a variable with this name is secret."""
    return _SECRET_NAME.search(name) is not None and _NO_SECRET_NAME.search(name) is None


@lru_cache(maxsize=8)
def _environment_secrets(
    pairs: tuple[tuple[str, str], ...], withheld: frozenset[str]
) -> tuple[tuple[str, str], ...]:
    """Return the secrets of an environment. All sessions of a process have nearly the same one."""
    return tuple(_secrets(pairs, False, withheld))


def _secrets(
    pairs: Iterable[tuple[str, str]], is_file: bool, always: frozenset[str] = frozenset()
) -> Iterator[tuple[str, str]]:
    """Yield the secret values: by their names, in a file also by their form, and passwords in URLs."""
    for name, value in islice(pairs, MOST_SETTINGS):
        if (url := _CREDENTIALS.match(value)) is not None:
            if not _is_ordinary(url["password"]):
                yield name, url["password"]
        elif not _is_ordinary(value) and (name in always or _is_named_secret(name, value, is_file)):
            yield name, value


def _is_named_secret(name: str, value: str, is_file: bool) -> bool:
    if _NO_SECRET_NAME.search(name) is not None:
        return False
    if _WEAK_NAME.fullmatch(name) is not None:
        return says_secret(name) and _looks_secret(name, value)
    return says_secret(name) or (is_file and is_random(value.encode("utf-8", "surrogatepass")))


def _looks_secret(name: str, value: str) -> bool:
    """Return whether a value is random, or resembles a password rather than a list of words."""
    data = value.encode("utf-8", "surrogatepass")
    is_password = _PASSWORD_NAME.search(name) is not None
    return is_random(data) or (_JOINED.search(value) is None and is_quoted_secret(data, is_password))


def _short_secrets(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield values of a secrets file that are short or common. They are masked only next to their names."""
    for name, value in islice(pairs, MOST_SETTINGS):
        is_password = _PASSWORD_NAME.search(name) is not None
        if _NO_SECRET_NAME.search(name) is not None or not (is_password or says_secret(name)):
            continue
        if _SHORT_VALUE.fullmatch(value) is None or _NO_VALUE.fullmatch(value) is not None:
            continue
        data = value.encode()
        if not is_placeholder(data) and (
            is_password or any(map(str.isdigit, value)) or not _is_ordinary(value)
        ):
            yield name, value


def _is_ordinary(value: str) -> bool:
    """Return whether the value is short, a word, a number, a path or a URL, so that it may appear
    anywhere."""
    data = value.encode("utf-8", "surrogatepass")
    return _WORD.fullmatch(value) is not None or is_ruled_out(data)


def _environment_files(folder: Path) -> tuple[Path, ...]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(one.name for one in entries if _is_environment_file(one.name))
    except OSError:
        return ()
    return tuple(folder / name for name in names[:MOST_FILES])


def _is_environment_file(name: str) -> bool:
    if name != ".env" and not name.startswith(".env."):
        return False
    return not any(part in _TEMPLATES for part in name.lower().split("."))


def _version(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


def _settings_in(path: Path) -> Iterator[tuple[str, str]]:
    try:
        found = read_bytes(path, MOST_FILE_BYTES)
    except ConfigError:
        return
    if found is not None:
        yield from settings(found[0].decode("utf-8-sig", "replace"))


def mask_content(ports: Ports, message: UserContent, may_be_empty: bool = True) -> UserContent:
    """Return a message with the secrets in its text masked; the bytes of files are not searched.

    Raises `UsageError` for a file that the model cannot get, or whose address holds a secret, and without
    `may_be_empty` for a message that says nothing.
    """
    if not may_be_empty:
        require_content(message)
    require_readable(ports.model, message)
    return mask_parts(ports.masker, message)


def require_readable(model: Model, message: UserContent) -> None:
    """Raise `UsageError` if the message has a file that the model cannot get, or more text than it can."""
    texts = (message,) if isinstance(message, str) else (part for part in message if isinstance(part, str))
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    if (tokens := int(size * TOKENS_PER_BYTE)) > model.context_window:
        raise UsageError(
            f"The message has {format_size(size)}, about {tokens:,} tokens;"
            f" the window of {model.name} has {model.context_window:,}.",
            "Put the text into a file and name the file in the message: tools read it in parts."
            " If the window is larger, set it in `context_windows`.",
        )
    for part in () if isinstance(message, str) else message:
        if not isinstance(part, str) and (why := refusal_of(model, part)):
            raise UsageError(why, "Leave it out, or go on with another model: -m PROVIDER/MODEL")


def mask_parts(masker: Masker, message: UserContent) -> UserContent:
    """Return a message with the secrets in its text masked; the bytes of files are not searched.

    Raises `UsageError` for a file whose address holds a secret.
    """
    if isinstance(message, str):
        return masker.text(encodable(message))
    for part in message:
        if isinstance(part, str):
            continue
        if part.url and masker.text(part.url) != part.url:
            raise UsageError(
                "The address of a file holds a secret, which the store and the provider would get.",
                "Fetch it in your program, with sandbur.fetch_attachment, and attach its bytes.",
            )
    return tuple(
        masker.text(encodable(part)) if isinstance(part, str) else _mask_name(masker, part)
        for part in message
    )


def _mask_name(masker: Masker, file: AttachedFile) -> AttachedFile:
    if not isinstance(file, Document) or masker.text(file.name) == file.name:
        return file
    return file.model_copy(update={"name": masker.text(file.name)})


def require_plain_labels(masker: Masker, labels: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return labels of a session; raises `UsageError` for a secret: several would have one placeholder."""
    for name in ("app", "user", "tags"):
        given = labels.get(name) or ()
        if any(masker.text(one) != one for one in ([given] if isinstance(given, str) else given)):
            raise UsageError(
                f"The label `{name}` holds a secret, which the store would get.", "Use a name or an id."
            )
    return labels
