"""The tool of an endpoint: checks the model's arguments, sends one request and returns the response."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import quote

from ....state.calls import Effect
from ....state.lazy_dataclass import dataclass
from ....state.process.crashpoints import reach
from ...masking.masker import SHORTEST_VALUE, make_value_label
from ...ports import BadArguments, ToolContext, ToolOutcome, ToolSpec, ToolTraits
from ...workspace.paths import format_size
from ..functions.schemas.schema_tool import SchemaArguments, usable_name, usual
from ..web.addresses import private_host
from ..web.client import WebClient, WebLimits
from ..web.exchange import READING_METHODS, Judgements, NotSent, TookTooLong, WebAnswer, WebProblem
from ..web.guard import AddressRefused
from ..web.web_tool import describe_kind, read_body_text
from ..web.web_url import WebUrl
from .endpoint import HttpEndpoint, defaults_of
from .template import ABSENT, Lookup, Placeholder, Unfillable

_MOST_BYTES = 4_000_000
_MOST_HEADER_CHARS = 2000
_TELLING = ("link", "location", "retry-after")


@dataclass(frozen=True, slots=True)
class HttpCall:
    """The arguments of the model, and the request that they result in."""

    given: Mapping[str, Any]
    subject: str
    """The method and the address with the model's arguments. Other values appear by name."""


class HttpTool:
    def __init__(
        self, endpoint: HttpEndpoint, env: Mapping[str, str], client: WebClient | None = None
    ) -> None:
        """`env` contains the values of the variables that the endpoint names. They are read at each call."""
        what = f"The tool {endpoint.name}"
        schema = usual(endpoint.parameters, what)
        self.endpoint = endpoint
        self._env = env
        self._client = client
        self.spec = ToolSpec(usable_name(endpoint.name), endpoint.description, schema)
        self._arguments = SchemaArguments(schema, what, "given")
        self.traits = ToolTraits(
            reaches="configured", description=f"it sends {endpoint.template_text}", asks=endpoint.ask
        )
        self._defaults = defaults_of(schema)

    @property
    def effect(self) -> Effect:
        return self.endpoint.effect

    @property
    def origin(self) -> str:
        """Return the place where the tool is configured, for people."""
        return self.endpoint.origin

    @property
    def variables(self) -> Sequence[str]:
        """Return the names of the environment variables whose values the tool sends."""
        return _names(self.endpoint, "env")

    def secrets(self) -> Mapping[str, str]:
        """Return the environment values that the tool sends, by name. They are masked in all texts."""
        found = {name: self._env.get(name, "") for name in self.variables}
        return {name: value for name, value in found.items() if len(value) >= SHORTEST_VALUE}

    def parse(self, arguments: str) -> HttpCall:
        given, _ = self._arguments.check(self.spec, arguments)
        given = {**self._defaults, **given}

        def value(reference: Placeholder) -> Any:
            return given.get(reference.name, ABSENT) if reference.source == "parameter" else reference.label

        try:
            self.endpoint.content(value)
            address = self.endpoint.address(value)
        except Unfillable as error:
            raise BadArguments(f"{self.spec.name} {error}.") from None
        return HttpCall(given, _subject(self.endpoint.method, str(address)))

    def effect_of(self, arguments: HttpCall) -> Effect:
        return self.endpoint.effect

    def subject(self, arguments: HttpCall) -> str:
        return arguments.subject

    def paths(self, arguments: HttpCall) -> Sequence[str]:
        return ()

    async def run(self, arguments: HttpCall, context: ToolContext) -> ToolOutcome:
        secrets = self.secrets()
        if context.masker is not None:
            known = {(value, make_value_label(name)) for name, value in secrets.items()}
            context.masker.references.exact_values.update(known)
        outcome = await self._send(arguments, context)
        return replace(outcome, content=_hide_secrets(secrets, outcome.content))

    async def _send(self, arguments: HttpCall, context: ToolContext) -> ToolOutcome:
        name, endpoint = self.spec.name, self.endpoint
        try:
            request = endpoint.request(self._lookup(arguments, context), context.idempotency_key)
        except Unfillable as error:
            return ToolOutcome("error", f"Nothing was sent: {name} {error}.")
        client = self._client or _client(endpoint.timeout_s)
        reach("http_tool_call")
        try:
            answer = await client.send(request, self._make_judgements(arguments, context))
        except AddressRefused as refused:
            way = "its table sets `private = true`, or contains the address itself"
            return ToolOutcome("error", f"Nothing was sent: {refused.why} {name} may go there where {way}.")
        except NotSent as problem:
            return ToolOutcome("error", f"Nothing was sent: {problem}")
        except TookTooLong as late:
            warning = "" if endpoint.effect == "read" else " It may have taken effect."
            return ToolOutcome("timeout", f"{late}{warning}")
        except WebProblem as problem:
            return self._cut(problem)
        return _make_outcome(answer, endpoint.method)

    def _cut(self, problem: Exception) -> ToolOutcome:
        """Return the outcome for a request whose response did not arrive completely."""
        if self.endpoint.effect != "effect":
            return ToolOutcome("error", str(problem))
        return ToolOutcome(
            "unknown",
            f"{problem} The request was sent: it may or may not have taken effect, and was not sent again."
            " Verify its effect before you repeat it.",
        )

    def _lookup(self, arguments: HttpCall, context: ToolContext) -> Lookup:
        known = {
            "session_id": context.session_id,
            "call_id": context.call_id,
            "idempotency_key": context.idempotency_key,
            "workspace": str(context.cwd),
        }

        def value(reference: Placeholder) -> Any:
            name = reference.name
            if reference.source == "parameter":
                return arguments.given.get(name, ABSENT)
            if reference.source == "context":
                return known[name]
            if reference.source == "var":
                if name not in context.variables:
                    raise Unfillable(f"needs the variable {name} of the session: --var {name}=VALUE sets it")
                return context.variables[name]
            if name not in self._env:
                raise Unfillable(f"needs the variable {name} of the environment, which is not set")
            return self._env[name]

        return value

    def _make_judgements(self, arguments: HttpCall, context: ToolContext) -> Judgements:
        site = self.endpoint.site
        names_private = private_host(site.host) is not None

        def may_dial(url: WebUrl) -> bool:
            return self.endpoint.is_private or (names_private and url.host == site.host)

        def may_follow(url: WebUrl) -> bool:
            led = replace(arguments, subject=_subject(self.endpoint.method, str(url)))
            return url.origin == site.origin and context.judge(led).decision != "deny"

        return Judgements(may_dial, may_follow)


def _subject(method: str, address: str) -> str:
    return address if method == "GET" else f"{method} {address}"


def _names(endpoint: HttpEndpoint, source: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.name for one, _ in endpoint.references if one.source == source))


@cache
def _client(timeout_s: float) -> WebClient:
    """Return the client that all tools with this time limit share, so that they share its TLS data."""
    return WebClient(
        limits=WebLimits(total_s=timeout_s, connect_s=min(timeout_s, 10.0), most_bytes=_MOST_BYTES)
    )


def _hide_secrets(secrets: Mapping[str, str], text: str) -> str:
    """Return the text with names in place of the secrets, for all forms in which a secret may be written."""
    for name, value in secrets.items():
        for form in (value, quote(value, safe=""), quote(value), json.dumps(value)[1:-1]):
            text = text.replace(form, f"${name}")
    return text


def _make_outcome(answer: WebAnswer, method: str) -> ToolOutcome:
    outcome = "ok" if answer.status < 400 else "error"
    head = "\n".join((f"HTTP {answer.status}", *_select_headers(answer, method)))
    if answer.leads_to:
        # A request that changes data is done when it gets this answer. 307 and 308 require sending it to
        # another address.
        is_done = method not in READING_METHODS and answer.status < 307
        outcome_text = f"{head}\n[it redirects to {answer.leads_to}, which was not followed]"
        return ToolOutcome("ok" if is_done else "error", outcome_text)
    if not answer.body:
        return ToolOutcome(outcome, f"{head}\n(no content)")
    text = read_body_text(answer)
    if text is None:
        what = f"{describe_kind(answer)}, {format_size(len(answer.body))}"
        return ToolOutcome(outcome, f"{head}\n[the answer is not text: {what}]")
    return ToolOutcome(outcome, f"{head}\n{text}")


def _select_headers(answer: WebAnswer, method: str) -> Iterator[str]:
    """Yield the headers that are useful for the next request, or all headers for the method HEAD."""
    for name, value in answer.headers.items():
        if (method == "HEAD" or name in _TELLING) and not answer.leads_to:
            yield f"{name}: {value}"[:_MOST_HEADER_CHARS]
