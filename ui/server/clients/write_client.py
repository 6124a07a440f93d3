"""`sandbur serve client`: writes a client of the HTTP interface of this version."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ....state.errors import UsageError
from ...terminal.terminal import put, say
from ..command import ServeCommand
from ..openapi import make_document
from ..routes.table import ROUTES
from .client_model import ClientModel, read_document
from .python_client import write_python_client
from .typescript_client import write_typescript_client

_LANGUAGES: Mapping[str, Callable[[ClientModel], str]] = {
    "python": write_python_client,
    "typescript": write_typescript_client,
}


async def write_client(command: ServeCommand) -> int:
    """Print the client on stdout, or write it into the file of `--output`."""
    write = _LANGUAGES[command.what]
    source = write(read_document(make_document(ROUTES)))
    if command.output is None:
        put(source.removesuffix("\n"))
        return 0
    try:
        Path(command.output).write_text(source, "utf-8")
    except OSError as error:
        raise UsageError(
            f"The client cannot be written to {command.output}: {error.strerror}.",
            "Name another file: -o FILE",
        ) from None
    say(f"Wrote the client to {command.output}.")
    return 0
