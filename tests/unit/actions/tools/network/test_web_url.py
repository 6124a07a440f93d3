"""One spelling of an address for everybody who looks at it."""

import pytest

from sandbur.actions.tools.web.web_url import UnfitUrl, web_url


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("HTTP://Example.COM", "http://example.com/"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("http://example.com:443/a", "http://example.com:443/a"),
        ("https://example.com./a#part", "https://example.com/a"),
        ("https://bücher.example/ä?q=ü", "https://xn--bcher-kva.example/%C3%A4?q=%C3%BC"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0x7f.0.0.1/", "http://127.0.0.1/"),
        ("http://0177.1/", "http://127.0.0.1/"),
        ("http://127。0。0。1/", "http://127.0.0.1/"),
        ("https://ⓛocalhost/", "https://localhost/"),
        ("http://[0:0::ffff:7f00:1]:8000/", "http://[::ffff:7f00:1]:8000/"),
        (
            "https://git.example/api/group%2Fproject?ref=../x",
            "https://git.example/api/group%2Fproject?ref=../x",
        ),
    ],
)
def test_an_address_has_one_spelling(written: str, read: str) -> None:
    assert str(web_url(written)) == read


@pytest.mark.parametrize("part", [
    "..", ".", "%2e%2e", "%2E.", "..;x", "%252e%252e", "a%2f..%2fb", "a%5c..%5cb", "%2525252e%2525252e/x",
])  # fmt: skip
def test_a_step_upwards_is_refused_however_it_is_written(part: str) -> None:
    with pytest.raises(UnfitUrl):
        web_url(f"https://example.com/docs/{part}/secret")


@pytest.mark.parametrize("written", [
    "ftp://example.com/", "file:///etc/passwd", "//example.com/", "example.com", "http:///x", "http://",
    "javascript:1",
    "http://user@example.com/", "http://user:word@example.com/", "http://example.com@127.0.0.1/", "http://a\\@b/",
    "http://example.com:0/", "http://example.com:65536/", "http://example.com:8x/", "http://exa mple.com/",
    "http://example.com/\r\nHost: x", "http://example.com/\x00", "http://[fe80::1%25eth0]/", "http://[127.0.0.1]/",
    "http://[::1/", "http://256.1.1.1/", "http://1.2.3.4.5/", "http://-a.example/", "http://a..b/", "http://exa%6dple.com/",
    "http://127.0.0.1%00.example.com/", "http://example.com\ud800/", "http://" + "a" * 9000,
])  # fmt: skip
def test_what_two_programs_could_read_in_two_ways_is_refused(written: str) -> None:
    with pytest.raises(UnfitUrl):
        web_url(written)


def test_a_redirect_leads_on_from_where_it_was_found() -> None:
    here = web_url("https://example.com/a/b?c")
    assert str(here.join("../d")) == "https://example.com/d"
    assert str(here.join("//other.example/x")) == "https://other.example/x"
    with pytest.raises(UnfitUrl):
        here.join("file:///etc/passwd")
