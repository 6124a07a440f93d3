"""Arguments of a call as text to edit: what is not changed stays, byte by byte and type by type."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples.texts import any_text

from sandbur.ui.chat.decisions.edit import BadEdit, EditForm

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text(), inner, max_size=3),
    max_leaves=5,
)
TEXTS = st.text(alphabet=st.sampled_from('ab=( )"\n\r\t\\#\u00e9\u2028\x1b'), max_size=40)


def form(tool: str = "send", **values: Any) -> EditForm:
    return EditForm(tool, json.dumps(values))


@settings(deadline=None)
@given(st.dictionaries(TEXTS | any_text(min_size=1), TEXTS | VALUES, max_size=4))
def test_what_is_not_changed_comes_back_exactly(values: dict[str, Any]) -> None:
    shown = EditForm("send", json.dumps(values))
    assert shown.read(shown.text) is None
    if values:
        # As if another argument had been changed: every value is read from the text.
        again = shown._find_name(shown.text)
        assert json.dumps(again) == json.dumps(values)


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from('ab-( )"\n\t\\#\u00e9'), max_size=40))
def test_what_is_written_below_a_heading_arrives_as_it_is(new: str) -> None:
    shown = form(to="x", body="MARK", count=3)
    found = shown.read(shown.text.replace("MARK", new))
    assert json.loads(found or "") == {"to": "x", "body": new, "count": 3}


def test_a_command_is_edited_as_the_command_alone() -> None:
    shown = form("run_shell_command", command="df -h", timeout_s=30)
    assert shown.text == "df -h\n"
    assert shown.is_one_line
    assert json.loads(shown.read("df -i\n") or "") == {"command": "df -i", "timeout_s": 30}


def test_the_only_argument_is_edited_as_it_is() -> None:
    assert form(note="one\ntwo\n").text == "one\ntwo\n\n"
    assert form(note="one\ntwo\n").read("one\n") == '{"note": "one"}'


def test_several_texts_stand_below_headings() -> None:
    shown = form("write_file", path="a", content="x\ny", mode=8)
    assert shown.text.endswith(
        "=== path ===\na\n=== content ===\nx\ny\n=== mode (JSON) ===\n8\n=== (end) ===\n"
    )
    found = shown.read(shown.text.replace("y\n", "z\n").replace("8", "9"))
    assert json.loads(found or "") == {"path": "a", "content": "x\nz", "mode": 9}


def test_a_value_that_looks_like_a_heading_is_none() -> None:
    shown = form(a="=== b ===\n==== (end) ====", b="y")
    assert "===== a =====" in shown.text
    assert json.loads(shown.read(shown.text.replace("\ny\n", "\nz\n")) or "")["a"].startswith("=== b ===")


def test_what_an_editor_would_change_is_written_out() -> None:
    shown = form(a="one\r\ntwo\x1b", b="x")
    assert '"one\\r\\ntwo\\u001b"' in shown.text
    assert "\r" not in shown.text


@pytest.mark.parametrize(("old", "new"), [("3", "3.0"), ("3", "true"), ("true", "1"), ("null", "0")])
def test_another_type_is_another_value(old: str, new: str) -> None:
    shown = EditForm("send", f'{{"to": "x", "n": {old}, "m": "y"}}')
    found = shown.read(shown.text.replace(f"\n{old}\n", f"\n{new}\n"))
    assert found is not None
    assert f'"n": {new}' in found


def test_an_argument_is_taken_out_and_put_in_with_its_heading() -> None:
    shown = form(to="x", body="y")
    text = shown.text.replace("=== body ===\ny\n", "=== count (JSON) ===\n[1]\n")
    assert json.loads(shown.read(text) or "") == {"to": "x", "count": [1]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("3", "three"), "Line 9, argument 'n': this is not a JSON value"),
        (("\n3\n", f"\n{'3' * 5000}\n"), "argument 'n': nested too deeply, or a number with too many"),
        (("=== n (JSON) ===", "=== to ==="), "Line 8: there are two headings 'to'"),
        (("=== (end) ===\n", "=== (end) ===\nmore"), "Line 11: this text is after the end mark"),
        (("===", "--"), "Line 1: there is no heading"),
    ],
)
def test_a_broken_edit_says_what_and_where(change: tuple[str, str], says: str) -> None:
    shown = form(to="x", b="y", n=3)
    with pytest.raises(BadEdit, match=says.replace("(", r"\(")):
        shown.read(shown.text.replace(*change))


def test_arguments_that_are_no_object_are_edited_as_they_are() -> None:
    shown = EditForm("send", "[1]")
    assert shown.text == "[1]\n"
    assert shown.read('{"a": 1}') == '{"a": 1}'
    with pytest.raises(BadEdit, match="JSON object"):
        shown.read(f'{{"a": {"1" * 5000}}}')
    with pytest.raises(BadEdit, match="JSON object"):
        shown.read("[2]")
    with pytest.raises(BadEdit, match="Line 1"):
        shown.read("{")
