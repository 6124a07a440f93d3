"""A wait that is given up says what it waited for, and what was there instead."""

import pytest
from support.waiting import until, wait_for


def test_a_wait_ends_when_the_condition_holds() -> None:
    answers = iter([False, "", "there"])
    wait_for(lambda: next(answers))
    assert list(answers) == []


def test_a_wait_in_vain_names_its_line_and_shows_what_there_is() -> None:
    with pytest.raises(AssertionError) as failed:
        wait_for(lambda: "the prompt" in "something else", lambda: "a screen with\nsomething else", limit_s=0)
    assert 'wait_for(lambda: "the prompt" in "something else"' in str(failed.value)
    assert str(failed.value).endswith("a screen with\nsomething else")
    assert "test_waiting.py:" in str(failed.value)


async def test_a_wait_in_an_event_loop_does_so_too() -> None:
    with pytest.raises(AssertionError, match=r"test_waiting\.py.*until"):
        await until(lambda: False, limit_s=0)
