"""Classifies the errors of providers: the call is retried, or it raises a `SandburError`."""

import json
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from socket import EAI_AGAIN, gaierror
from typing import Any, cast

from ...state.errors import (
    ConfigError,
    ContextFull,
    CredentialsError,
    ModelError,
    Overloaded,
    SandburError,
    Unreachable,
    to_exhausted,
)
from ...state.lazy_dataclass import dataclass
from .providers import Endpoint

_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
_STATUSES = frozenset({400, 413, 422, 500})
"""The statuses of a request that is too long. llama.cpp and Ollama answer 500; a 429 about tokens is a rate
limit and not included."""

_TEXTS = re.compile(
    "|".join(
        (
            r"context[_ ]length[_ ]exceeded",
            r"maximum context length",
            r"(exceeds?|exceeded|longer than|too long for|larger than) (the |your |this |its |available )*"
            r"(model'?s? |available |maximum |max )*(context|model length)",
            r"exceeds the context window",
            r"prompt is too long",
            r"prompt too long",
            r"input is too long",
            r"exceed context limit",
            r"input token count .{0,40}exceeds",
            r"input length .{0,20}exceeds",
            r"range of input length should be",
            r"maximum prompt length is",
            r"prompt token count of \d+ exceeds",
            r"reduce the length of the (messages|input|prompt)",
        )
    ),
    re.IGNORECASE,
)


def is_context_full(status: int, code: str, text: str) -> bool:
    if code in _CODES:
        return True
    return status in _STATUSES and _TEXTS.search(text) is not None


MAX_DETAIL_CHARS = 300

_NEVER_AGAIN = {"insufficient_quota", "insufficient_balance", "billing_error", "billing_hard_limit_reached"}
_STATUS_OF_KIND = {
    "invalid_request_error": 400, "invalid_prompt": 400, "authentication_error": 401, "billing_error": 402,
    "permission_error": 403, "not_found_error": 404, "model_not_found": 404, "timeout_error": 504,
    "request_too_large": 413, "context_length_exceeded": 400, "exceed_context_size_error": 400,
    "validationException": 400, "throttlingException": 429, "serviceUnavailableException": 503,
    "modelTimeoutException": 504,
    "rate_limit_error": 429, "rate_limit_exceeded": 429, "insufficient_quota": 429, "overloaded_error": 529,
}  # fmt: skip
_KEY = re.compile(r"\bsk-[\w*\-]{8,}|\bAIza[\w\-]{8,}|\bBearer (?=\S*\d)[\w.\-]{8,}")


class Transient(Exception):
    """A failure that may not occur again if the request is retried."""

    def __init__(
        self,
        what: str,
        retry_after_s: float | None = None,
        max_tries: int | None = None,
        lasting: type[ModelError] = Overloaded,
        hint: str = "",
        is_refusal: bool = False,
    ) -> None:
        super().__init__(what)
        self.what = what
        """The problem, in words that begin a sentence."""
        self.retry_after_s = retry_after_s
        self.max_tries = max_tries
        """The most tries for this failure, if fewer than the policy's."""
        self.lasting = lasting
        """The class of the error to raise after the last try."""
        self.hint = hint
        self.is_refusal = is_refusal
        """True if the server refused the request; False if the connection or the answer failed."""


def make_truncation_error(who: str) -> Transient:
    """Return the failure for an answer that ended too early."""
    return Transient(f"the answer of {who} was cut off")


class Rejected(ModelError):
    """The provider rejects this request. `detail` is the provider's reason."""

    def __init__(self, message: str, detail: str) -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Refusal:
    """A provider's error answer, from any library or stream."""

    status: int
    body: Any
    """Parsed JSON, or a text."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def refusal_in_stream(data: Mapping[str, Any]) -> Refusal:
    """Parse an error object in a response whose status is 200."""
    code, kind, _ = _read_error(data)
    for word in (code, kind):
        if word.isdigit() and 400 <= int(word) <= 599:
            return Refusal(int(word), data)
        if word in _STATUS_OF_KIND:
            return Refusal(_STATUS_OF_KIND[word], data)
    return Refusal(500, data)


def judge(refusal: Refusal, endpoint: Endpoint, proxy: str = "") -> Exception:
    """Return the exception to raise: a `SandburError` or `Transient`. `proxy` names the proxy on the way."""
    status = refusal.status
    code, kind, text = _read_error(refusal.body)
    detail = readable(text, endpoint)
    if status == 407:
        return _make_proxy_login_error(proxy)
    if status in (401, 403):
        return _bad_credentials(status, detail, endpoint)
    if is_context_full(status, code or kind, text):
        return ContextFull(f"The request does not fit into the window of {endpoint.name}: {detail}")
    if status == 402 or {code, kind} & _NEVER_AGAIN:
        return ModelError(
            f"{endpoint.provider} has no credit left for this key: {detail}",
            "Top it up, or resume with another model: -m PROVIDER/MODEL",
        )
    if status in (408, 409, 429) or status >= 500:
        what = _what_happened(status, detail, endpoint, proxy)
        return Transient(what, retry_after_s(refusal.headers), is_refusal=True)
    return _make_lasting_error(status, detail, endpoint)


def _what_happened(status: int, detail: str, endpoint: Endpoint, proxy: str) -> str:
    if status == 429:
        return f"rate limited by {endpoint.provider}"
    if status in (503, 529):
        return f"{endpoint.provider} is overloaded"
    # An encrypted answer comes from the server itself; any other may come from a proxy on the way.
    is_open = bool(proxy) and not endpoint.base_url.startswith("https:")
    source = f"{endpoint.provider} or {proxy}" if is_open else endpoint.provider
    return f"{source} failed ({status}: {detail})"


def _make_lasting_error(status: int, detail: str, endpoint: Endpoint) -> ModelError:
    if status == 404:
        return ModelError(
            f"{endpoint.display_url} knows no model {endpoint.model} (404: {detail})",
            "Check the name after the first slash of -m, and the base URL.",
        )
    if 300 <= status < 400:
        return ModelError(f"{endpoint.display_url} redirects elsewhere ({status}).", "Check the base URL.")
    return Rejected(f"{endpoint.name} refused the request ({status}): {detail}", detail)


def _bad_credentials(status: int, detail: str, endpoint: Endpoint) -> CredentialsError:
    where = f"Set {endpoint.key_env} to a valid key." if endpoint.key_env else "It wants a key."
    if endpoint.profile.cloud is not None and not endpoint.api_key:
        where = "Sign in again, and check which models and regions this account may use."
    if status == 401:
        return CredentialsError(f"{endpoint.provider} refused the key (401).", where)
    return CredentialsError(f"{endpoint.provider} refuses this key (403): {detail}", where)


def readable(text: str, endpoint: Endpoint) -> str:
    """Return untrusted text as one short line, without control characters and keys."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * MAX_DETAIL_CHARS]).split())
    if endpoint.api_key:
        line = line.replace(endpoint.api_key, "***")
    line = _KEY.sub("***", line)
    return line[:MAX_DETAIL_CHARS] or "no reason was given"


def _read_error(body: Any) -> tuple[str, str, str]:
    """Return the code, the type and the text of an error body in any known format."""
    if not isinstance(body, dict):
        return "", "", body if isinstance(body, str) else _compact(body)
    fields = cast(dict[str, Any], body)
    error: Any = fields.get("error") or fields
    if not isinstance(error, dict):
        return "", "", str(error)
    fields = cast(dict[str, Any], error)
    text = fields.get("message") or fields.get("detail") or _compact(fields)
    metadata: Any = fields.get("metadata")
    if isinstance(metadata, dict) and (raw := cast(dict[str, Any], metadata).get("raw")):
        text = f"{text}: {raw}"  # OpenRouter's own text says only that its upstream provider failed.
    return str(fields.get("code") or ""), str(fields.get("type") or ""), str(text)


def _compact(value: Any) -> str:
    return "" if value is None else json.dumps(value, default=str)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the requested wait in seconds, from `retry-after-ms`, or from `retry-after` as seconds or
    date."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if not value:
            continue
        seconds = _seconds_until(value) if not re.fullmatch(r"[0-9.]+", value) else _number(value)
        if seconds is not None:
            return max(0.0, seconds * scale)
    return None


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _seconds_until(date: str) -> float | None:
    try:
        when = parsedate_to_datetime(date)
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return (when - datetime.now(UTC)).total_seconds()


_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")


_CUT = ("ReadError", "WriteError")
_PROXY_HINT = "Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, or name the host in NO_PROXY."
_PROXY_LOGIN = "Write them into the variable that names the proxy: http://NAME:PASSWORD@HOST:PORT"


def classify_connection_error(error: Exception, endpoint: Endpoint, proxy: str = "") -> Exception:
    """Return `Transient` for a lost connection, or `Unreachable` if a retry cannot help.

    `proxy` names the proxy on the way, if there is one. Return `Exhausted` if this process could not open a
    connection at all, which is not the server's fault.
    """
    if (ours := _find_own_error(error)) is not None:
        return ours
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Unreachable(
                f"The certificate of {endpoint.display_url} does not verify:"
                f" {readable(cause.verify_message, endpoint)}.",
                "If a proxy of this network signs certificates, name the file of its CA in SSL_CERT_FILE;"
                " else check the base URL and the clock of this machine.",
            )
        if isinstance(cause, gaierror):
            return _classify_dns_error(cause, endpoint, proxy)
        if isinstance(cause, ConnectionRefusedError) and endpoint.profile.start_command:
            return Unreachable(
                f"No {endpoint.provider} is running at {endpoint.display_url}.",
                f"Start it with: {endpoint.profile.start_command}",
            )
    return _classify_hop(error, endpoint, proxy)


def _classify_hop(error: Exception, endpoint: Endpoint, proxy: str) -> Exception:
    """Return the failure with the hop that failed: the proxy or the server."""
    causes = tuple(_causes(error))
    refusal = next((str(one) for one in causes if type(one).__name__ == "ProxyError"), None)
    if refusal is not None:
        if refusal.startswith("407"):
            return _make_proxy_login_error(proxy)
        reason = readable(refusal, endpoint)
        if refusal.startswith("403"):
            return Unreachable(
                f"{proxy} does not let requests to {endpoint.display_url} pass ({reason}).", _PROXY_HINT
            )
        return Transient(f"cannot reach {endpoint.display_url}: {proxy} answers {reason}")
    hop = proxy or "the server"
    if any(isinstance(one, ConnectionRefusedError) for one in causes):
        return Transient(f"cannot reach {endpoint.display_url}: {hop} refuses the connection")
    if any(_is_cut(one) for one in causes):
        through = f" through {proxy}" if proxy else ""
        return Transient(
            f"cannot reach {endpoint.display_url}: the connection{through} was cut before an answer"
        )
    reason = readable(str(error.__cause__ or error), endpoint)
    return Transient(f"cannot reach {endpoint.display_url} ({reason}{f'; by {proxy}' if proxy else ''})")


def _is_cut(error: BaseException) -> bool:
    # The classes of the HTTP libraries are known by name, because a start without a request loads neither.
    return isinstance(error, ConnectionResetError | BrokenPipeError) or type(error).__name__ in _CUT


def _make_proxy_login_error(proxy: str) -> Unreachable:
    return Unreachable(f"{proxy or 'a proxy'} wants a name and a password (407).".capitalize(), _PROXY_LOGIN)


def _find_own_error(error: Exception) -> Exception | None:
    found = next(filter(None, map(to_exhausted, _causes(error))), None)
    if found is None:
        # A DNS lookup opens files. If it cannot, it reports an unrelated error.
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as refused:
            found = to_exhausted(refused)
    return found


def unusable_settings(error: Exception, endpoint: Endpoint) -> SandburError | None:
    """Return the error about a setting that keeps a client from starting, or None if no setting does."""
    if (ours := to_exhausted(error)) is not None:
        return ours
    if isinstance(error, OSError):
        named = " and ".join(f"{name}={os.environ[name]}" for name in _find_set_variables(_CERTIFICATES))
        reason = readable(error.strerror or str(error), endpoint)
        problem = f"No certificates can be read from {readable(named, endpoint)}: {reason}."
    else:
        # The values are not in the message, because they may contain a password.
        named = " and ".join(_find_set_variables(_PROXIES))
        is_socks = isinstance(error, ImportError)
        problem = f"A proxy in {named} cannot be used: " + (
            "for SOCKS, the package socksio is missing." if is_socks else "its address is none."
        )
    return ConfigError(problem, "Correct or unset it.") if named else None


def _classify_dns_error(error: gaierror, endpoint: Endpoint, proxy: str) -> Exception:
    what = f"cannot find the host of {endpoint.display_url} ({readable(error.strerror or '', endpoint)})"
    hint = "Check the base URL for a mistyped name, and the network of this machine."
    if proxy:
        # With a proxy, only its own name is looked up here.
        what = f"cannot find {proxy} ({readable(error.strerror or '', endpoint)})"
        hint = _PROXY_HINT
    if error.errno == EAI_AGAIN:
        return Transient(what, max_tries=2, lasting=Unreachable, hint=hint)
    return Unreachable(f"{what[0].upper()}{what[1:]}.", hint)


def _find_set_variables(names: tuple[str, ...]) -> list[str]:
    """Return the names of the variables that are set, in capitals or, as usual for proxies, in small
    letters."""
    return [name for each in names for name in (each, each.lower()) if os.environ.get(name)]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for one in cast("BaseExceptionGroup[BaseException]", error).exceptions:
                yield from _causes(one)
        error = error.__cause__ or error.__context__
