"""What `docs/workflows.md` shows is what happens, and it names every workflow."""

import re
from dataclasses import fields
from typing import Any

import pytest
from support.places import ROOT

import sandbur
from sandbur import ChildResult, Workflow
from sandbur.testing import temporary_store

PAGE = (ROOT / "docs" / "workflows.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def test_the_python_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    with temporary_store() as store:
        for name, value in store.env.items():
            monkeypatch.setenv(name, value)
        for block in BLOCKS:
            exec(compile(block, "docs/workflows.md", "exec"), names)
    assert names["undecided"].status == "error"


def test_the_table_has_every_workflow_and_no_other() -> None:
    public = (getattr(sandbur, name) for name in sandbur.__all__)
    kinds = {one.__name__ for one in public if isinstance(one, type) and issubclass(one, Workflow)}
    assert set(re.findall(r"^\| `([A-Z]\w+)\(", PAGE, re.M)) == kinds - {"Workflow"}


def test_the_page_names_what_a_result_of_an_agent_has() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert {each.name for each in fields(ChildResult)} - {"is_escalated"} <= named
