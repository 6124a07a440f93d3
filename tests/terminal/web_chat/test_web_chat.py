"""A person uses the web chat of `sandbur serve`, in a real browser."""

import json
import threading
from collections.abc import Iterator
from html.entities import html5
from pathlib import Path

import pytest
from support.models.turns import ToolCall, calls
from support.screens.browser import NEEDS_BROWSER
from support.screens.chat_page import ENTER, ESCAPE, ChatPage, call, open_chat_page, say

from sandbur.ui.chat.decisions.approvals import Approvals

pytestmark = NEEDS_BROWSER

HOSTILE = """<script>document.title = "owned"</script> <img src=x onerror="document.title='owned'">

[click me](javascript:document.title='owned') and [data](data:text/html,<script>1</script>)

![a picture](https://pictures.example/a.png) [fine](https://fine.example/page_(1))
"""
MOST_SHOWN = 20_000
"""The most characters of a running output on the page."""
RICH = """## What I found

The file has **two** problems, *both* small. See [the page](https://example.org/a?b=1).

1. `parse` ignores an empty line
2. the total is wrong:
   - it counts twice
   - it forgets the last one

| name | count |
|---|---:|
| anvils | 12 |
| rockets | 3 |

```python
def total(rows):
    return sum(row.count for row in rows)
```

> A quote of the manual.
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatPage]:
    with open_chat_page(tmp_path_factory.mktemp("chat")) as opened:
        yield opened


def test_a_conversation_streams_and_its_markdown_becomes_elements(page: ChatPage) -> None:
    follows = threading.Event()
    answer = say(RICH, pieces=30, reasoning="I read the file first.", after=follows)
    page.start(page.script.add("look at the file", answer))
    page.browser.until(lambda: page.count(".message.user"))
    follows.set()  # thinking is not stored: only a page that follows the session sees it
    page.until_status("done")
    page.browser.until_shown("A quote of the manual.")
    assert page.texts(".message.user .prose") == ["look at the file"]
    assert page.count(".message.assistant") == 1
    assert page.texts(".message.assistant :is(h3:not(.unseen), h4)") == ["What I found"]
    assert page.texts(".message.assistant li li") == ["it counts twice", "it forgets the last one"]
    assert page.texts(".message.assistant td.right") == ["12", "3"]
    assert page.texts(".message.assistant pre code") == [
        "def total(rows):\n    return sum(row.count for row in rows)"
    ]
    assert page.texts("details.thinking .thought") != []
    page.keep("conversation")


def test_a_waiting_call_shows_its_difference_and_is_approved_by_keyboard(page: ChatPage) -> None:
    (page.work / "list.txt").write_text("one\ntwo\nthree\n")
    read = call("read_file", path="list.txt")
    edit = call("edit_file", path="list.txt", old="one\ntwo", new="one\n2")
    page.start(page.script.add("change the list", read, edit, say("The list is changed.")))
    page.until_asked()
    assert page.texts(".approval .diff .removed .sign") == ["-"]
    assert page.texts(".approval .diff .added") == ["+added: 2"]
    page.keep("approval")
    page.browser.press(ESCAPE, "y")
    page.until_status("done")
    page.browser.until_shown("The list is changed.")
    assert (page.work / "list.txt").read_text() == "one\n2\nthree\n"
    assert page.count(".approval") == 0
    page.browser.run("for (const one of document.querySelectorAll('details.call')) one.open = true")
    page.browser.until(lambda: page.count(".call .diff .added"))
    page.keep("calls")


def test_a_denial_by_keyboard_sends_its_reason_to_the_model(page: ChatPage) -> None:
    page.start(page.script.add("remove it", call("run_shell_command", command="rm -r x"), say("I leave it.")))
    page.until_asked()
    page.browser.press(ESCAPE, "r")
    page.browser.until(lambda: page.browser.run("return document.activeElement.className") == "words")
    page.browser.press(*"keep it", ENTER)
    page.browser.until_shown("I leave it.")
    assert "keep it" in page.script.requests[-1].raw.decode()
    assert "denied" in page.texts(".call .state")[-1]


def test_always_approves_exactly_the_same_call_again_and_no_other(page: ChatPage) -> None:
    touch = call("run_shell_command", command="touch always.txt")
    other = call("run_shell_command", command="touch other.txt")
    page.start(page.script.add("touch twice", touch, touch, other, say("All touched.")))
    page.until_asked()
    page.browser.press(ESCAPE, "a")
    page.browser.until(lambda: "other.txt" in " ".join(page.texts(".approval")))
    assert "because you chose Always" in page.browser.text()
    page.until_asked()
    page.browser.press("n")
    page.browser.until_shown("All touched.")
    assert not (page.work / "other.txt").exists()


def test_the_keys_of_a_question_mean_the_same_as_in_the_terminal(page: ChatPage) -> None:
    page.start(
        page.script.add("touch once", call("run_shell_command", command="touch once.txt"), say("Well."))
    )
    page.until_asked()
    keys = page.browser.run(
        "return [...document.querySelectorAll('.approval button')].map(one => one.ariaKeyShortcuts)"
    )
    assert set(keys) <= set(Approvals.KEYS)
    assert {"y", "a", "n", "r"} <= set(keys)
    page.browser.press(ESCAPE, "n")
    page.browser.until_shown("Well.")


def test_a_reload_in_the_middle_of_a_turn_shows_nothing_twice(page: ChatPage) -> None:
    wait = "until [ -e go ]; do sleep 0.05; done; echo went"
    first = calls(ToolCall("run_shell_command", json.dumps({"command": wait})), text="I wait for the file.")
    page.start(page.script.add("wait for it", first, say("It went well.", pieces=20)))
    page.until_status("running")
    page.send("and this later")
    page.script.add("and this later", say("This was later."))
    page.browser.until(lambda: page.count("#queue li"))
    page.browser.run("location.reload()")
    page.until_status("running")
    page.browser.until(lambda: page.count("#queue li"))
    page.keep("running")
    (page.work / "go").touch()
    page.browser.until_shown("This was later.")
    page.until_status("done")
    assert page.texts(".message.user .prose") == ["wait for it", "and this later"]
    assert page.texts(".message.assistant .prose") == [
        "I wait for the file.", "It went well.", "This was later."
    ]  # fmt: skip
    assert page.count(".call") == 1
    assert page.count("#queue li") == 0


def test_a_running_command_shows_its_output_as_it_comes(page: ChatPage) -> None:
    hostile = r"printf '<b id=owned>first</b> \033[31m \342\200\256 line\n'"
    long_line = "printf %01000000d 0"
    command = f"{hostile}; until [ -e live ]; do sleep 0.05; done; {long_line}; echo; echo second"
    waits = f"{command}; until [ -e over ]; do sleep 0.05; done"
    page.start(page.script.add("watch it", call("run_shell_command", command=waits), say("I saw it.")))
    shown = page.browser.until(lambda: page.texts(".call-output pre"))
    assert shown == ["<b id=owned>first</b>  \ufffd line"]
    assert page.browser.run("return document.querySelector('.call-output pre').checkVisibility()")
    assert page.texts(".call .state") == ["working\u2026"]
    assert page.count("#owned") == 0
    page.keep("running-output")
    page.browser.run("location.reload()")
    page.until_status("running")
    page.browser.until(lambda: page.count(".call"))
    (page.work / "live").touch()
    (text,) = page.browser.until(lambda: [one for one in page.texts(".call-output pre") if "second" in one])
    assert "first" not in text
    assert len(text) <= MOST_SHOWN
    assert "missing" in page.texts(".call-output p")[0]
    (page.work / "over").touch()
    page.browser.until_shown("I saw it.")
    assert page.count(".call-output pre") == 0


def test_markup_and_javascript_links_of_a_model_stay_text(page: ChatPage) -> None:
    page.start(page.script.add("attack me", say(HOSTILE)))
    page.until_status("done")
    text = page.browser.until_shown("click me")
    for written in ("<script>document.title", "<img src=x", "(javascript:document.title='owned')"):
        assert written in text
    hrefs = page.browser.run("return [...document.querySelectorAll('#log a')].map(one => one.href)")
    assert hrefs == ["https://pictures.example/a.png", "https://fine.example/page_(1)"]
    assert page.count("#log script, #log img") == 0
    assert page.browser.run("return document.title") == "attack me · Sandbur"


def test_entities_are_characters_everywhere_but_in_code(page: ChatPage) -> None:
    shown = {name: text for name, text in html5.items() if name.endswith(";") and text.isprintable()}
    every = " ".join(f"[&{name}]" for name in shown)
    answer = f"""## 1 &lt; 2 &amp;&amp; 3

- &quot;a&quot;&#32;&#x263a;&#9731; \\&lt; &unknown; &amp
- `&lt;` **&copy; bold** [&larr; back](https://a.example/?b=1&amp;c=2)
- &#0;&#x110000;&#x202e;!

| &le; |
|---|
| &ge; |

```
&lt;code&gt;
```

[run](javascript&colon;alert&lpar;1&rpar;)

every: {every}
"""
    page.start(page.script.add("write entities", say(answer)))
    page.until_status("done")
    page.browser.until_shown("every:")
    assert page.texts(".message.assistant :is(h3:not(.unseen), h4)") == ["1 < 2 && 3"]
    assert page.texts(".message.assistant li") == [
        '"a" \u263a\u2603 &lt; &unknown; &amp', "&lt; \xa9 bold \u2190 back", "\ufffd\ufffd\ufffd!",
    ]  # fmt: skip
    assert page.texts(".message.assistant :is(th, td)") == ["\u2264", "\u2265"]
    assert page.texts(".message.assistant pre code") == ["&lt;code&gt;"]
    links = "return [...document.querySelectorAll('.message.assistant a')].map(one => one.href)"
    hrefs = page.browser.run(links)
    assert hrefs == ["https://a.example/?b=1&c=2"]
    assert page.texts(".message.assistant p")[-1] == "every: " + " ".join(
        f"[{one}]" for one in shown.values()
    )


def test_a_picture_is_shown_at_its_message_and_comes_back_after_a_reload(
    page: ChatPage, tmp_path: Path
) -> None:
    made = tmp_path / "red.png"
    made.write_bytes(RED_PNG)
    page.browser.open(f"{page.url}#/new")
    page.browser.run("document.querySelector('#file').hidden = false")
    page.browser.type("//input[@id='file']", str(made))
    page.browser.until_shown("red.png")
    page.script.add("what is this", say("It is red."))
    page.send("what is this")
    page.browser.until_shown("It is red.")
    loaded = "const one = document.querySelector('.message.user img'); return one ? one.naturalWidth : 0"
    page.browser.until(lambda: page.browser.run(loaded) == 1)
    page.browser.run("location.reload()")
    page.browser.until(lambda: page.browser.run(loaded) == 1)


RED_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


def test_sessions_are_searched_and_opened_by_keyboard(page: ChatPage) -> None:
    page.start(page.script.add("the quick walrus", say("Walruses are slow.")))
    page.until_status("done")
    page.browser.press(ESCAPE, "/")
    page.browser.press(*"walrus")
    page.browser.until(lambda: page.texts("#sessions .title") == ["the quick walrus"])
    page.browser.press(ESCAPE, "c")
    page.browser.until_shown("What should be done?")
    page.browser.press(ESCAPE, "j")
    page.browser.until_shown("Walruses are slow.")
    page.browser.press(ESCAPE, "?")
    page.browser.until_shown("Approve the first waiting call")
    page.keep("keys")
    page.browser.press(ESCAPE)
    page.browser.run("document.querySelector('#search').value = ''")


def test_the_page_asks_no_other_host_and_breaks_no_rule_of_its_policy(page: ChatPage) -> None:
    messages = [json.loads(entry["message"])["message"] for entry in page.browser.log("performance")]
    asked = [
        one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"
    ]
    assert asked
    assert not [url for url in asked if not url.startswith((page.url, "blob:", "data:", "about:", "chrome:"))]
    complaints = [entry["message"] for entry in page.browser.log("browser") if entry["level"] == "SEVERE"]
    # Before the token was typed, the page asked without one.
    assert not [one for one in complaints if "401 (Unauthorized)" not in one]
