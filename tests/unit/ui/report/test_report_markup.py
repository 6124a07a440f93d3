"""HTML is escaped by its type, and the Markdown of a person or a model is shown without its dangers."""

import re

import pytest
from support.screens.html_check import Page
from support.screens.reports import NASTY

from sandbur.ui.report.markup import Html, block, join, line, prose, tag


def shown(html: str) -> str:
    return Page(html).text


@pytest.mark.parametrize("made", [block, line, join, lambda text: tag("p", text), prose])
def test_plain_text_is_escaped_wherever_it_goes(made) -> None:
    html = made(NASTY)
    assert isinstance(html, Html)
    assert "<img src=x onerror=alert(1)>" in shown(html)
    assert not re.search(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2028\ufffe]", html)


def test_an_attribute_cannot_be_left() -> None:
    html = tag("p", "x", title='"><script>alert(1)</script>')
    assert html == '<p title="&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;">x</p>'


def test_only_markup_passes_and_what_strings_make_of_it_is_text_again() -> None:
    bold = tag("b", "x")
    assert tag("p", bold) == "<p><b>x</b></p>"
    for made in (f"{bold}", bold + bold, "".join([bold]), bold.strip()):
        assert tag("p", made).startswith("<p>&lt;b&gt;")


def test_attributes_without_a_value_are_left_out() -> None:
    assert tag("details", class_=None, open=False) == "<details></details>"
    assert tag("details", class_="a", open=True) == '<details class="a" open></details>'
    assert tag("meta", http_equiv="x") == '<meta http-equiv="x"/>'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# A\n\nb", "<h4>A</h4><p>b</p>"),
        ("a **b** *c* ~~d~~ `e<f`",
         "<p>a <strong>b</strong> <em>c</em> <s>d</s> <code>e&lt;f</code></p>"),
        ("- a\n- b\n  1. c", "<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>"),
        ("4. a\n5. b", '<ol start="4"><li>a</li><li>b</li></ol>'),
        ("|a|b|\n|-|-:|\n|1|<i>|",
         '<table><thead><tr><th>a</th><th class="number">b</th></tr></thead>'
         '<tbody><tr><td>1</td><td class="number">&lt;i&gt;</td></tr></tbody></table>'),
        ("```py\n<b>\n```", '<pre dir="auto">&lt;b&gt;</pre>'),
        ("```py\n<b>", '<pre dir="auto">&lt;b&gt;</pre>'),
        ("    code", '<pre dir="auto">code</pre>'),
        ("one\ntwo", "<p>one\ntwo</p>"),
        ("> a\n\n---", "<blockquote><p>a</p></blockquote><hr/>"),
        ("[a](https://b.c/?d=e&f)", '<p><a href="https://b.c/?d=e&amp;f" rel="noopener">a</a></p>'),
        ("<mailto:a@b.c>", '<p><a href="mailto:a@b.c" rel="noopener">mailto:a@b.c</a></p>'),
        ("![a](https://b.c/d.png)", '<p>!<a href="https://b.c/d.png" rel="noopener">a</a></p>'),
    ],
)  # fmt: skip
def test_markdown_is_rendered(text: str, expected: str) -> None:
    assert prose(text) == f'<div class="prose" dir="auto">{expected}</div>'
    shown(prose(text))


@pytest.mark.parametrize(
    "text",
    [
        "[a](javascript:alert(1))", "[a](data:text/html,x)", "[a](file:///etc/passwd)", "[a](//b.c)",
        "[a](#b)", "[a](b)", "[a]: vbscript:x\n\n[a]", "<script>alert(1)</script>", "<img src=x>", "<b>x</b>",
        "[a](java\nscript:alert(1))", "[a](&#106;avascript:alert(1))", '<a href="https://b.c">x</a>',
    ],
)  # fmt: skip
def test_what_is_no_link_to_the_web_stays_text(text: str) -> None:
    assert not re.search(r"<(?!/?(div|p)\b)", prose(text))


@pytest.mark.parametrize("text", ["&#x202e;x", "<https://b.c/%E2%80%AEx>", "&#27;[31m", "`\u202e`", "&#0;"])
def test_nothing_unseen_comes_back_through_entities_and_addresses(text: str) -> None:
    assert not re.search(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e]", prose(text))


def test_a_link_has_no_title_and_code_no_class() -> None:
    assert "title" not in prose('[a](https://b.c "d")')
    assert "lang" not in prose("```evil\nx\n```")


def test_no_text_makes_nothing() -> None:
    assert prose("") == prose("\n \n") == ""
