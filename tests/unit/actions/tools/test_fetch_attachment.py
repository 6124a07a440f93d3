"""A program fetches a file at an address under the rules of the web tools."""

import pytest
from support.models.files import PDF, png
from support.network.web_site import WebSite, page, redirect

from sandbur import Audio, Document, Image, fetch_attachment
from sandbur.state.errors import UsageError

HERE = ("127.0.0.1",)


async def test_a_fetched_file_is_the_same_file_with_its_bytes() -> None:
    async with WebSite({"/a": page(png(), "image/png"), "/b": page(PDF), "/to": redirect("/a")}) as site:
        at = f"http://127.0.0.1:{site.port}"
        picture = await fetch_attachment(Image.from_url(f"{at}/to", detail="low"), allow_addresses=HERE)
        paper = await fetch_attachment(Document.from_url(f"{at}/b", "b.pdf"), allow_addresses=HERE)
    assert picture == Image.from_bytes(png(), detail="low")
    assert paper == Document.from_bytes(PDF, "b.pdf")
    assert await fetch_attachment(picture) is picture


async def test_private_addresses_are_not_reached_unless_they_are_named() -> None:
    async with WebSite({"/a": page(png())}) as site:
        for host in ("127.0.0.1", "localhost"):
            with pytest.raises(UsageError, match="address reserved for"):
                await fetch_attachment(Image.from_url(f"http://{host}:{site.port}/a"))
        assert site.seen == []


async def test_a_redirect_to_a_private_address_is_not_followed() -> None:
    async with WebSite({"/a": redirect("http://127.0.0.2:9/a")}) as site:
        with pytest.raises(UsageError, match=r"127\.0\.0\.2"):
            await fetch_attachment(Image.from_url(f"http://127.0.0.1:{site.port}/a"), allow_addresses=HERE)


async def test_content_of_another_kind_and_errors_are_refused_with_a_sentence() -> None:
    async with WebSite({"/a": page("words"), "/b": page("no", status="404 Not Found")}) as site:
        at = f"http://127.0.0.1:{site.port}"
        with pytest.raises(UsageError, match="not a recording that models take"):
            await fetch_attachment(Audio.from_url(f"{at}/a"), allow_addresses=HERE)
        with pytest.raises(UsageError, match="answered with HTTP 404"):
            await fetch_attachment(Image.from_url(f"{at}/b"), allow_addresses=HERE)
