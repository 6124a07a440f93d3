"""The web chat on a phone, in dark and light colours, by keyboard, and while its server restarts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.screens.browser import NEEDS_BROWSER
from support.screens.chat_page import ESCAPE, TAB, ChatPage, call, open_chat_page, say

pytestmark = NEEDS_BROWSER

TEAM = """
from sandbur import Agent, workspace_tools
reader = Agent("openai/gpt-test", name="reader", description="Reads the stock.")
agent = Agent("openai/gpt-test", tools=workspace_tools(), agents=[reader])
other = Agent("openai/gpt-test", name="other")
"""
WIDE = """A very long word: {word}

| {cells} |
| {lines} |
| {cells} |

```
{word}
```
""".format(word="x" * 300, cells=" | ".join(["a longer cell"] * 12), lines=" | ".join(["---"] * 12))
LEAST_CONTRAST = 4.5
CONTRASTS = """
const linear = (one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
const channel = (value) => linear(value / 255);
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const over = ([r, g, b, a = 1], below) => [r, g, b].map((one, place) => one * a + below[place] * (1 - a));
function ground(element) {
  if (element === null) return [255, 255, 255];
  const own = parse(getComputedStyle(element).backgroundColor);
  if (own[3] === undefined) return own;
  return own[3] === 0 ? ground(element.parentElement) : over(own, ground(element.parentElement));
}
const found = {}, walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
  if (!text || !element.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
  const behind = ground(element), ink = over(parse(getComputedStyle(element).color), behind);
  const [high, low] = [luminance(ink), luminance(behind)].sort((a, b) => b - a);
  found[`${element.tagName} ${element.className}: ${text.slice(0, 30)}`] = (high + 0.05) / (low + 0.05);
}
return found;
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatPage]:
    home = tmp_path_factory.mktemp("chat")
    (home / "work").mkdir()
    (home / "work" / "team.py").write_text(TEAM)
    with open_chat_page(home, "--agent", "team:agent", "--agent", "team:other") as opened:
        yield opened


@pytest.fixture
def asked(page: ChatPage) -> Iterator[ChatPage]:
    """A session with a wide answer, opened calls, a waiting call and a long reason."""
    command = f"touch {'y' * 200}"
    read = call("list_directory", path=".")
    page.browser.resize(1440, 900)
    page.start(page.script.add("show it all", read, say(WIDE)))
    page.until_status("done")
    page.script.add("now touch it", call("run_shell_command", command=command), say("ok"))
    page.send("now touch it")
    page.until_asked()
    page.browser.run("for (const one of document.querySelectorAll('details.call')) one.open = true")
    page.browser.until(lambda: page.count(".call .output"))
    yield page
    page.browser.resize(1440, 900)
    page.browser.prefer_colors("light")


@pytest.mark.parametrize("width", [320, 360, 768, 1100, 1440])
def test_nothing_is_wider_than_the_screen(page: ChatPage, asked: ChatPage, width: int) -> None:
    page.browser.resize(width, 740)
    wider = """return [...document.querySelectorAll('#main, #main *')].filter(one => {
      const box = one.getBoundingClientRect();
      if (one.closest('pre, .table, .unseen') && !one.matches('pre, .table')) return false;
      return box.width && one.checkVisibility() && (box.right > innerWidth + 1 || box.left < -1);
    }).map(one => one.outerHTML.slice(0, 80))"""
    page.keep(f"width-{width}")
    assert page.browser.overflow == 0
    inside = [one for one in page.browser.run(wider) if 'class="skip"' not in one]
    assert inside == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(page: ChatPage, asked: ChatPage, scheme: str) -> None:
    page.browser.prefer_colors(scheme)
    page.keep(f"colours-{scheme}")
    found: dict[str, float] = page.browser.run(CONTRASTS)
    assert len(found) > 30
    assert {text: ratio for text, ratio in found.items() if ratio < LEAST_CONTRAST} == {}


def test_the_focus_goes_through_the_page_in_the_order_in_which_it_is_read(
    page: ChatPage, asked: ChatPage
) -> None:
    page.browser.run("document.querySelector('#search').focus()")
    passed: list[str] = []
    for _ in range(60):
        page.browser.press(TAB)
        at: Any = page.browser.run(
            "const one = document.activeElement; return one.id || (one.firstChild?.data ?? one.tagName)"
        )
        passed.append(str(at))
        if at == "send":
            break
    order = ["open-help", "Approve", "Always", "Deny", "Deny with a reason…", "message", "attach", "send"]
    assert [one for one in passed if one in order] == order


def test_a_new_session_belongs_to_the_chosen_agent(page: ChatPage) -> None:
    page.browser.open(f"{page.url}#/new")
    page.browser.run("document.querySelector('#agent').value = arguments[0]", "team:other")
    page.script.add("who are you", say("I am other."))
    page.send("who are you")
    page.browser.until_shown("I am other.")
    page.browser.until(lambda: "team:other" in page.texts(".facts dd"))
    page.browser.run("document.querySelector('#agent').selectedIndex = 0")


def test_a_sub_agent_is_entered_and_left(page: ChatPage) -> None:
    task = call("task", description="read the stock", prompt="How many anvils?", agent="reader")
    page.script.add("How many anvils?", say("There are 12 anvils."))
    parent = page.start(page.script.add("ask the reader", task, say("The reader counted.")))
    page.browser.until_shown("The reader counted.")
    page.browser.click("//a[@data-child]")
    page.browser.until(lambda: page.texts(".message.user .prose")[:1] == ["How many anvils?"])
    page.browser.until_shown("There are 12 anvils.")
    page.keep("sub-agent")
    page.browser.press(ESCAPE, "u")
    page.browser.until_shown("The reader counted.")
    assert page.browser.url.endswith(parent)


def test_a_restart_of_the_server_is_shown_and_the_turn_ends_once(tmp_path: Path) -> None:
    with open_chat_page(tmp_path) as page:
        long = say("one two three four five six " * 20, pieces=120, delay_s=0.25)
        page.start(page.script.add("count for me", long, say("I counted to six.")))
        page.browser.until(lambda: page.count(".message.live .prose p"))
        port = page.server.port
        page.server.stop()
        page.browser.until_shown("The connection was lost.")
        page.keep("lost")
        with page.serving(port):
            page.browser.until_shown("I counted to six.")
            page.until_status("done")
            assert page.texts(".message.user .prose") == ["count for me"]
            cut, answer = page.texts(".message.assistant .prose")
            # What had come before the restart is stored, and marked as cut.
            assert (long.text.startswith(cut), answer) == (True, "I counted to six.")
            assert page.texts("#log .line") == ["Interrupted before the end of this answer."]
            page.browser.until(
                lambda: page.browser.run("return document.querySelector('#connection').hidden")
            )
