"""The Chinese README says what the English one says: the same sections, commands, figures and links."""

import re
from collections import Counter

from support.places import ROOT

ENGLISH, CHINESE = ((ROOT / name).read_text("utf-8") for name in ("README.md", "README.zh-CN.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)


def strip_blocks(text: str) -> str:
    return BLOCK.sub("", text)


def test_the_sections_are_the_same_in_number_level_and_order() -> None:
    def levels(text: str) -> list[str]:
        return re.findall(r"^(#+) ", strip_blocks(text), re.M)

    assert levels(CHINESE) == levels(ENGLISH)


def test_the_blocks_are_the_same() -> None:
    assert BLOCK.findall(CHINESE) == BLOCK.findall(ENGLISH)


def test_each_section_has_the_same_commands_numbers_and_links() -> None:
    def read_sections(text: str) -> list[str]:
        return re.split(r"^## .*$", strip_blocks(text), flags=re.M)

    for ours, theirs in zip(read_sections(CHINESE), read_sections(ENGLISH), strict=True):
        ours = ours.replace("(README.md)", "(README.zh-CN.md)")  # each names the other one
        for pattern in (r"`([^`]+)`", r"\]\(([^()\s]+)\)", r"\d+(?:\.\d+)*"):
            assert Counter(re.findall(pattern, ours)) == Counter(re.findall(pattern, theirs)), pattern


def test_tables_and_lists_have_the_same_rows() -> None:
    def shape(text: str) -> list[tuple[str, int]]:
        lines = strip_blocks(text).splitlines()
        return [(line[0], line.count("|")) for line in lines if line.startswith(("|", "*"))]

    assert shape(CHINESE) == shape(ENGLISH)


def test_each_readme_names_the_other_one() -> None:
    assert "(README.zh-CN.md)" in ENGLISH
    assert "(README.md)" in CHINESE
