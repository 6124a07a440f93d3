"""Every attribute and method of a public class that has no underscore stands on a page."""

import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import pytest
from support.places import ROOT

import sandbur
import sandbur.testing

CODE = re.compile(r"^```\w*\n(.*?)^```|`([^`\n]+)`", re.M | re.S)
USED = re.compile(r"\.([a-z]\w*)|\b(\w+)(?==|\()|\bdef (\w+)|^(\w+)$|^(\w+)\b")
"""A name in code: after a dot, before `=` or a parenthesis, defined, alone, or the first of a span."""
ASSIGNED = re.compile(r"\bself\.([a-z]\w*)(?=(?:: [^=\n]+|(?:, self\.\w+)*) =[^=])")
MODULES = (sandbur, sandbur.testing, sandbur.events)


def list_classes(module: ModuleType) -> Iterator[type]:
    own = [
        name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    ]
    for name in getattr(module, "__all__", own):
        if inspect.isclass(value := getattr(module, name)) and not name.startswith("_"):
            yield value


CLASSES = sorted({one for module in MODULES for one in list_classes(module)}, key=lambda one: one.__name__)


def find_documented() -> set[str]:
    found: set[str] = set()
    for page in (ROOT / "docs").glob("*.md"):
        for code in map("".join, CODE.findall(page.read_text("utf-8"))):
            found.update(name for names in USED.findall(code) for name in names if name)
    return found


DOCUMENTED = find_documented()


def is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "sandbur"


def list_members(kind: type) -> set[str]:
    """Return the names that Sandbur's own classes give to the objects of a class."""
    found: set[str] = set()
    for owner in filter(is_ours, kind.__mro__):
        found.update(vars(owner), vars(owner).get("__annotations__", ()))
        found.update(ASSIGNED.findall(inspect.getsource(owner)))
    of_others = {name for one in kind.__mro__ if not is_ours(one) for name in vars(one)}
    # pytest collects the tests of a class that a store inherits from, and nobody calls them.
    return {name for name in found - of_others if not name.startswith(("_", "test_"))}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_member_without_an_underscore_stands_on_a_page(kind: type) -> None:
    assert list_members(kind) - DOCUMENTED == set()


def test_members_of_every_kind_are_found_and_those_of_other_packages_are_not() -> None:
    assert {"usage", "queue"} <= list_members(sandbur.AgentSession)
    assert {"rubric", "model_name"} <= list_members(sandbur.JudgeMetric)
    assert {"media_type", "detail"} <= list_members(sandbur.Image)
    assert "model_dump" not in list_members(sandbur.Image)
