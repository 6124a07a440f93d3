"""What may stand behind the `?` of a MySQL URL, as the driver wants it."""

import ssl
from typing import Any

from state.errors import StoreError
from state.store.servers.url import ServerUrl

_FILES = {"ssl-ca": "cafile", "ssl-cert": "certfile", "ssl-key": "keyfile"}
_KNOWN = ("unix_socket", "connect_timeout", "ssl-mode", *_FILES)
_CONTEXTS = {
    "required": (ssl.CERT_NONE, False),
    "require": (ssl.CERT_NONE, False),
    "verify_ca": (ssl.CERT_REQUIRED, False),
    "verify_identity": (ssl.CERT_REQUIRED, True),
    "verify_full": (ssl.CERT_REQUIRED, True),
}
"""Mode -> how the certificate is checked, and whether the host has to be the one it names."""
_ALIASES = {"socket": "unix_socket", "sslmode": "ssl-mode", "sslrootcert": "ssl-ca"}


def connect_options(url: ServerUrl) -> dict[str, Any]:
    """Return the driver's arguments; raises `StoreError` for what is not known."""
    given = {_name(key): value for key, value in url.options.items()}
    options: dict[str, Any] = _tls(url, given)
    socket = given.get("unix_socket", url.host if url.host.startswith("/") else "")
    if socket:
        options["unix_socket"] = socket
    if timeout := given.get("connect_timeout"):
        if not timeout.isdigit() or not int(timeout):
            raise _unfit(url, "connect_timeout is no number of seconds")
        options["connect_timeout"] = min(int(timeout), 3600)
    if unknown := sorted(set(given) - set(_KNOWN)):
        raise _unfit(url, f"{unknown[0]} is not known")
    return options


def _name(key: str) -> str:
    return _ALIASES.get(key, key.replace("_", "-") if key.startswith("ssl") else key)


def _tls(url: ServerUrl, given: dict[str, str]) -> dict[str, Any]:
    """Return the arguments for `ssl-mode`, named as MySQL's own client names it; sslmode's names fit, too."""
    default = "verify_ca" if "ssl-ca" in given else "required" if "ssl-cert" in given else "preferred"
    mode = given.get("ssl-mode", default).lower().replace("-", "_")
    if mode in ("preferred", "prefer"):
        return {}
    if mode in ("disabled", "disable"):
        return {"ssl_disabled": True}
    if mode not in _CONTEXTS:
        raise _unfit(url, "ssl-mode is none of DISABLED, PREFERRED, REQUIRED, VERIFY_CA and VERIFY_IDENTITY")
    return {"ssl": _context(url, given, *_CONTEXTS[mode])}


def _context(url: ServerUrl, given: dict[str, str], verify: ssl.VerifyMode, names: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=given.get("ssl-ca"))
        if "ssl-cert" in given:
            context.load_cert_chain(given["ssl-cert"], given.get("ssl-key"))
    except OSError as error:
        raise _unfit(url, f"a file of its certificates cannot be read ({error.strerror or error})") from None
    # The certificates that MySQL makes for itself do not stand the strict check.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = names
    context.verify_mode = verify
    return context


def _unfit(url: ServerUrl, what: str) -> StoreError:
    return StoreError(
        f"The URL of the store {url.name} does not fit: {what}.",
        f"Behind its `?` may stand {', '.join(_KNOWN)}.",
    )
