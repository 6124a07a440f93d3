"""Hostile text on its way to the screen."""

import pytest

from sandbur.ui.terminal.text.sanitize import expose, lookalikes, one_line, plain

HOSTILE = {
    "colour": "\x1b[31mred\x1b[0m",
    "cursor": "\x1b[2J\x1b[Hfake",
    "title": "\x1b]0;owned\x07text",
    "clipboard": "\x1b]52;c;ZWNobyBvd25lZA==\x07text",
    "link": "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "alternate screen": "\x1b[?1049htext",
    "mouse": "\x1b[?1000htext",
    "paste mode": "\x1b[?2004htext",
    "device control": "\x1bPq#0\x1b\\text",
    "eight bit": "\x9b31mred\x9d0;owned\x9ctext",
    "unfinished": "text\x1b]0;owned",
    "bell and backspace": "a\x07\x08\x08b",
    "null": "a\x00b",
    "escape at the end": "text\x1b",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("clean", [plain, expose, one_line])
def test_no_control_character_reaches_the_screen(clean, text):
    shown = clean(text)
    assert not [char for char in shown if ord(char) < 32 or 127 <= ord(char) < 160]


def test_plain_text_keeps_words_lines_and_tabs():
    assert plain("a\tb\r\nc\n") == "a\tb\nc\n"


def test_plain_text_drops_whole_sequences_and_keeps_what_they_wrapped():
    assert plain("\x1b[1;31mred\x1b[0m \x1b]8;;https://e.example\x07link\x1b]8;;\x07") == "red link"


def test_a_lone_carriage_return_hides_nothing():
    assert plain("rm -rf /\recho hi") == "rm -rf /\necho hi"


def test_an_unfinished_sequence_does_not_swallow_the_lines_after_it():
    assert "second" in plain("\x1b]0;first\nsecond\x07")


def test_reordering_marks_are_written_out():
    assert plain("a\u202eb") == "a<U+202E>b"
    assert expose("a\u2066b\u2069") == "a<U+2066>b<U+2069>"


def test_emoji_sequences_stay_whole_in_answers():
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert plain(family) == family


@pytest.mark.parametrize(
    "hidden", ["\u200b", "\u200d", "\u2060", "\ufeff", "\xad", "\xa0", "\U000e0041", "\ud800"]
)
def test_a_command_shows_what_cannot_be_seen(hidden):
    shown = expose(f"rm{hidden}file")
    assert hidden not in shown
    assert "<U+" in shown or "\\x" in shown


def test_an_escape_in_a_command_is_shown_and_not_dropped():
    assert expose("echo \x1b[31m") == "echo \\x1b[31m"


def test_surrogates_can_be_printed():
    plain("a\udcff").encode("utf-8")
    expose("a\udcff").encode("utf-8")


def test_one_line_keeps_line_ends_visible():
    assert one_line("a\nb") == "a\\nb"


def test_mixed_scripts_in_a_word_are_noticed_and_plain_foreign_words_are_not():
    assert lookalikes("cat p\u0430sswd") == ["p\u0430sswd"]
    assert lookalikes("echo привет мир größe") == []
