"""Fetches the content of a file that a message names by its address, if a program requests it."""

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from ...state.conversation.attachments import MAX_BYTES_OF_KIND, AttachedFile, Document, Image
from ...state.errors import UsageError
from .web.client import WebClient, WebLimits
from .web.exchange import Judgements, WebProblem, WebRequest
from .web.web_url import UnfitUrl, WebUrl, web_url

FileT = TypeVar("FileT", bound=AttachedFile)


async def fetch_attachment(
    file: FileT, *, timeout_s: float = 30.0, allow_addresses: Collection[str] = ()
) -> FileT:
    """Return the file with its content, read from its address. A file that has its content is returned
    unchanged.

    The rules of the web tools apply. Private networks and this machine are not reached, except at
    `allow_addresses` (such as `10.0.0.7`). Redirects follow the same rules and never lead from `https` to
    `http`. A content over the limit of its kind is refused.

    Args:
        file: A file of `from_url`.
        timeout_s: The time from the name resolution to the last byte, in seconds.
        allow_addresses: Addresses of private networks that may be reached.

    Raises `UsageError` if the address cannot be read, or if its content is of another kind.
    """
    if not file.url:
        return file
    try:
        url = web_url(file.url)
    except UnfitUrl as error:
        raise UsageError(f"The address of the file {error}.") from None

    def may_follow(target: WebUrl) -> bool:
        return target.scheme == "https" or url.scheme == "http"

    limits = replace(WebLimits(), total_s=timeout_s, most_bytes=MAX_BYTES_OF_KIND[file.kind])
    judgements = Judgements(may_dial=lambda dialled: dialled.host in allow_addresses, may_follow=may_follow)
    try:
        answer = await WebClient(limits=limits).send(WebRequest(url, headers={"Accept": "*/*"}), judgements)
    except WebProblem as problem:
        raise UsageError(str(problem), "Attach a file that your program has read.") from None
    if answer.status >= 300 or answer.leads_to:
        raise UsageError(f"{url.origin} answered with HTTP {answer.status} instead of the file.")
    return _with_bytes(file, answer.body)


def _with_bytes(file: FileT, content: bytes) -> FileT:
    if isinstance(file, Image):
        return type(file).from_bytes(content, detail=file.detail)
    if isinstance(file, Document):
        return type(file).from_bytes(content, file.name)
    return type(file).from_bytes(content)
