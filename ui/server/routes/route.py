"""One route of the server: its path, who may use it, its forms, and the function that answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel
from starlette.responses import Response

from ....state.lazy_dataclass import dataclass
from ....state.store.access_tokens import Scope
from ....state.store.store import Store
from ..access.token_book import Caller

if TYPE_CHECKING:
    from ..service import Service

FormT = TypeVar("FormT", bound=BaseModel)
MOST_BODY_BYTES = 2_000_000
MOST_FILES_BYTES = 40_000_000


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request that was checked: the caller may send it, and its forms are valid."""

    service: Service
    caller: Caller | None
    """None on the routes that need no token."""
    store: Store
    """The store, with the sessions of the caller's tenant only."""
    path: Mapping[str, str]
    query: BaseModel | None
    body: BaseModel | None
    headers: Mapping[str, str]

    @property
    def session_id(self) -> str:
        """The session in the path, which the tenant of the caller has."""
        return self.path["session_id"]

    @property
    def base_url(self) -> str:
        """The address by which clients reach the server: that of `--public-url`, or that of the request."""
        return self.service.public_url or f"http://{self.headers.get('host', '')}"

    def read_query(self, form: type[FormT]) -> FormT:
        assert isinstance(self.query, form)
        return self.query

    def read_body(self, form: type[FormT]) -> FormT:
        assert isinstance(self.body, form)
        return self.body

    @property
    def who(self) -> Caller:
        assert self.caller is not None, "the route needs a token"
        return self.caller


Handler = Callable[[ApiRequest], Awaitable[BaseModel | Response]]


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """A row of the table of routes."""

    method: str
    path: str
    name: str
    """The name of the operation in the OpenAPI document."""
    about: str
    scope: Scope | None
    """What the token has to allow; None: the route needs no token."""
    handle: Handler
    answer: type[BaseModel] | None = None
    """The form of the answer; None: it is no JSON object, see `media`."""
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    status: int = 200
    media: str = "application/json"
    most_bytes: int = MOST_BODY_BYTES
    """The limit of the body."""
    protocol: str = ""
    """The protocol of other programs that the route speaks, which has clients of its own; empty: none."""
    described: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the OpenAPI document says about this operation, where it differs from that of the others."""

    @property
    def has_session(self) -> bool:
        return "{session_id}" in self.path

    @property
    def changes_something(self) -> bool:
        return self.method != "GET"


def dump(answer: BaseModel) -> Any:
    return answer.model_dump(mode="json")
