"""Sessions and folders have names that are one segment of a URL, and back."""

import re

import pytest

from sandbur.agent.history.tracking.entries import (
    AppName,
    app_id,
    app_name,
    is_listed_as,
    make_listed_key,
    partition_key,
    project_id,
)

IDS = ("s1", "3f1c-44", "a/b", "../up", "a b?c#d%20", "tilde~step-1", "x~steps-1-2", "größe", "~7E", "a.b_c")


@pytest.mark.parametrize("session_id", IDS)
def test_every_session_id_survives_the_address(session_id: str) -> None:
    for name in (
        AppName(session_id),
        AppName(session_id, step_id="2.1"),
        AppName(session_id, step_id="odd/step~1"),
        AppName(session_id, first=0, last=99),
    ):
        text = app_id(name)
        assert re.fullmatch(r"[A-Za-z0-9._~-]+", text)
        assert app_name(text) == name


def test_nothing_is_no_name() -> None:
    assert app_name("") is None


def test_folders_of_one_name_are_two_projects() -> None:
    one, other = project_id("/home/ada/app"), project_id("/home/bob/app")
    assert one != other
    assert one.startswith("app-")
    assert re.fullmatch(r"folder-[0-9a-f]{8}", project_id("/"))


@pytest.mark.parametrize(
    ("title", "key"),
    [
        ("write two into a.txt", "write-two-into-a.txt"),
        ("../../etc/passwd?x#y%2f", "etc-passwd-x-y-2f"),
        ("", None),
        ("///", None),
        ("<img src=x onerror=alert(1)>", "img-src-x-onerror-alert-1"),
        ("größe messen", "größe-messen"),
        ("x" * 500, "x" * 48),
    ],
)
def test_a_title_becomes_a_readable_segment(title: str, key: str | None) -> None:
    assert partition_key(title) == key


@pytest.mark.parametrize(
    ("key", "facts", "listed"),
    [
        ("say-hello", ("done", "claude", "$0.0123"), "say-hello · done · claude · $0.0123"),
        (None, ("new", "vendor/a?b#c%20", "$0.0000"), "- · new · vendor:a:b:c:20 · $0.0000"),
        ("x" * 48, ("done", "one", "$0.0000"), f"{'x' * 24}… · done · one · $0.0000"),
        ("x" * 48, ("needs_approval", "m" * 99, "cost unknown"),
         f"{'x' * 15}… · needs_approval · {'m' * 20} · cost unknown"),
    ],
)  # fmt: skip
def test_a_listed_key_is_short_readable_and_still_names_its_session(
    key: str | None, facts: tuple[str, ...], listed: str
) -> None:
    assert make_listed_key(key, *facts) == listed
    assert is_listed_as(listed, key)
    assert is_listed_as(make_listed_key(key, "running", "other", "$9.0000"), key)
    assert not is_listed_as(listed, "say")
    assert not is_listed_as(listed, "say-hello-again")


def test_a_key_alone_names_its_sessions() -> None:
    assert is_listed_as("say-hello", "say-hello")
    assert not is_listed_as("say", "say-hello")
