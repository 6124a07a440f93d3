"""What a model needs of an SDK's client: post prepared bytes, get the open response."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from agent.models.body import Body

if TYPE_CHECKING:
    from httpx2 import Response

CONNECT_TIMEOUT_S = 10
WRITE_TIMEOUT_S = 120


class Transport(Protocol):
    async def post(self, path: str, body: Body) -> "Response":
        """Send and return the response, not read yet.

        Raises `Transient` or one of our errors for whatever the library raises, and for every error status.
        """
        ...

    async def aclose(self) -> None: ...


def ambient_header_names(variable: str) -> list[str]:
    """Return the names of the headers that an SDK takes from this variable of the process."""
    lines = os.environ.get(variable, "").splitlines()
    return [line.partition(":")[0].strip() for line in lines if ":" in line]


def plain(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
