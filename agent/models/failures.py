"""What a provider's refusal means: try again, or one of our errors."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

from agent.models.context_full import says_context_full
from agent.models.endpoint import Endpoint
from state.errors import ContextFull, CredentialsError, ModelError, Overloaded

MAX_DETAIL_CHARS = 300

_NEVER_AGAIN = {"insufficient_quota", "insufficient_balance", "billing_error", "billing_hard_limit_reached"}
_STATUS_OF_KIND = {
    "invalid_request_error": 400, "invalid_prompt": 400, "authentication_error": 401, "billing_error": 402,
    "permission_error": 403, "not_found_error": 404, "model_not_found": 404, "timeout_error": 504,
    "request_too_large": 413, "context_length_exceeded": 400, "exceed_context_size_error": 400,
    "rate_limit_error": 429, "rate_limit_exceeded": 429, "insufficient_quota": 429, "overloaded_error": 529,
}  # fmt: skip
_KEY = re.compile(r"\bsk-[\w*\-]{8,}|\bAIza[\w\-]{8,}|\bBearer (?=\S*\d)[\w.\-]{8,}")


class Transient(Exception):
    """A failure that trying again may cure."""

    def __init__(
        self,
        what: str,
        retry_after_s: float | None = None,
        max_tries: int | None = None,
        lasting: type[ModelError] = Overloaded,
    ) -> None:
        super().__init__(what)
        self.what = what
        """What happened, as the beginning of a sentence."""
        self.retry_after_s = retry_after_s
        self.max_tries = max_tries
        """Fewer tries than the policy allows, if set."""
        self.lasting = lasting
        """What it becomes when no try is left."""


class Rejected(ModelError):
    """The provider does not accept the request as it is; `detail` says what it did not like."""

    def __init__(self, message: str, detail: str) -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Refusal:
    """A provider's error answer, whichever library or stream it came through."""

    status: int
    body: Any
    """Parsed JSON, or text."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def refusal_in_stream(data: Mapping[str, Any]) -> Refusal:
    """Read an error object that came with status 200."""
    code, kind, _ = _read_error(data)
    for word in (code, kind):
        if word.isdigit() and 400 <= int(word) <= 599:
            return Refusal(int(word), data)
        if word in _STATUS_OF_KIND:
            return Refusal(_STATUS_OF_KIND[word], data)
    return Refusal(500, data)


def judge(refusal: Refusal, endpoint: Endpoint) -> Exception:
    """Return what to raise: a `SandburError`, or `Transient`."""
    status = refusal.status
    code, kind, text = _read_error(refusal.body)
    detail = readable(text, endpoint)
    if status in (401, 403):
        return _bad_credentials(status, detail, endpoint)
    if says_context_full(status, code or kind, text):
        return ContextFull(f"The request does not fit into the window of {endpoint.name}: {detail}")
    if status == 402 or {code, kind} & _NEVER_AGAIN:
        return ModelError(
            f"{endpoint.provider} has no credit left for this key: {detail}",
            "Top it up, or resume with another model: -m PROVIDER/MODEL",
        )
    if status in (408, 409, 429) or status >= 500:
        what = _what_happened(status, detail, endpoint)
        return Transient(what, retry_after_s(refusal.headers))
    return _lasting(status, detail, endpoint)


def _what_happened(status: int, detail: str, endpoint: Endpoint) -> str:
    if status == 429:
        return f"rate limited by {endpoint.provider}"
    if status in (503, 529):
        return f"{endpoint.provider} is overloaded"
    return f"{endpoint.provider} failed ({status}: {detail})"


def _lasting(status: int, detail: str, endpoint: Endpoint) -> ModelError:
    if status == 404:
        return ModelError(
            f"{endpoint.base_url} knows no model {endpoint.model} (404: {detail})",
            "Check the name after the first slash of -m, and the base URL.",
        )
    if 300 <= status < 400:
        return ModelError(f"{endpoint.base_url} points somewhere else ({status}).", "Check the base URL.")
    return Rejected(f"{endpoint.name} refused the request ({status}): {detail}", detail)


def _bad_credentials(status: int, detail: str, endpoint: Endpoint) -> CredentialsError:
    where = f"Set {endpoint.key_env} to a valid key." if endpoint.key_env else "It wants a key."
    if status == 401:
        return CredentialsError(f"{endpoint.provider} refused the key (401).", where)
    return CredentialsError(f"{endpoint.provider} does not let this key in (403): {detail}", where)


def readable(text: str, endpoint: Endpoint) -> str:
    """Return foreign text as one short line without control characters and without keys."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * MAX_DETAIL_CHARS]).split())
    if endpoint.api_key:
        line = line.replace(endpoint.api_key, "***")
    line = _KEY.sub("***", line)
    return line[:MAX_DETAIL_CHARS] or "no reason was given"


def _read_error(body: Any) -> tuple[str, str, str]:
    """Return code, type and text of an error body, however the server shapes it."""
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
        text = f"{text}: {raw}"  # OpenRouter's message alone only says that the provider behind it failed.
    return str(fields.get("code") or ""), str(fields.get("type") or ""), str(text)


def _compact(value: Any) -> str:
    return "" if value is None else json.dumps(value, default=str)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how long the server asks to wait: `retry-after-ms`, seconds, or an HTTP date."""
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
