"""Sessions and folders have names that are one segment of a URL, and back."""

import re

import pytest

from agent.tracking.names import AppName, app_id, app_name, partition_key, project_id

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
