"""What was typed while no prompt was up, as the draft of the next one."""

import pytest

from sandbur.ui.chat.input.typed import as_draft


@pytest.mark.parametrize(
    ("typed", "draft"),
    [
        (b"", ""),
        (b"hello", "hello"),
        (b"hello\n", "hello"),
        (b"one\rtwo\n\n", "one\ntwo"),
        (b"helo\x7flo\x08o", "hello"),
        (b"one\nx\x7f\x7f\x7ftwo", "one\ntwo"),
        (b"\x7f\x7fa", "a"),
        (b"one\nwrong\x15right", "one\nright"),
        (b"a\x1b[A\x1b[1;5Db\x1bOPc\x1b", "abc"),
        (b"\x1b[200~pasted\x1b[201~", "pasted"),
        (b"\x1b[12;40Rx", "x"),
        (b"\x03\x04\x00\x18\x1a", ""),
        ("grün 😀".encode(), "grün 😀"),
        (b"a\xffb", "a\ufffdb"),
    ],
)
def test_typed_keys_become_the_text_a_person_meant(typed: bytes, draft: str) -> None:
    assert as_draft(typed) == draft
