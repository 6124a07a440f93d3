"""The page about the chat says of its keys what binds them."""

from support.places import ROOT

from sandbur.ui.chat.input.keys import KEYS, key_lines

PAGE = (ROOT / "docs" / "chat.md").read_text("utf-8")


def test_the_page_has_the_table_of_the_keys() -> None:
    rows = "\n".join(f"| {key.label} | {key.at_prompt} | {key.in_run} |" for key in KEYS)
    assert f"|---|---|---|\n{rows}\n\n" in PAGE


def test_no_key_has_two_meanings() -> None:
    bound = [sequence for key in KEYS for sequence in key.sequences]
    assert len(bound) == len(set(bound))


def test_the_list_of_the_keys_fits_into_any_terminal() -> None:
    for width in (40, 80, 160):
        for in_run in (True, False):
            assert all(len(text) < width for _, text in key_lines(in_run, width))
    assert len(key_lines(True, 80)) == sum(bool(key.in_run) for key in KEYS)
