"""Differences of files with line numbers and the words that changed."""

import random
import time

import pytest

from sandbur.ui.terminal.text.diffs import Emphasized, cut, diff_text, number_diff

DIFF = """Edited a.py: 2 places.
--- a.py
+++ a.py
@@ -8,4 +8,5 @@
 def f():
-    return one + 1
+    return two + 1
+    # more
{blank}
 end
@@ -120 +121 @@
-old
+new
\\ No newline at end of file""".replace("{blank}", " ")


def shown(text: str) -> list[str]:
    return [f"{role:<8}{line}".rstrip() for role, line in number_diff(text)]


def test_each_line_has_its_number_in_the_old_and_in_the_new_file() -> None:
    assert shown(DIFF) == [
        "plain   Edited a.py: 2 places.",
        "quiet     8   8  def f():",
        "removed   9     -    return one + 1",
        "added         9 +    return two + 1",
        "added        10 +    # more",
        "quiet    10  11",
        "quiet    11  12  end",
        "quiet           ...",
        "removed 120     -old",
        "added       121 +new",
        "quiet            No newline at end of file",
    ]


def test_the_words_that_changed_stand_out() -> None:
    lines = [line for _, line in number_diff(DIFF) if isinstance(line, Emphasized)]
    assert [line[start:end] for line in lines[:2] for start, end in line.parts] == ["one", "two"]


def test_lines_that_have_nothing_in_common_have_no_words_that_stand_out() -> None:
    (_, before), (_, after) = number_diff("@@ -1 +1 @@\n-alpha(beta)\n+if x: y")
    assert getattr(before, "parts", ()) == getattr(after, "parts", ()) == ()


def test_a_line_that_is_cut_keeps_what_stands_out_of_it() -> None:
    line = next(line for _, line in number_diff(DIFF) if "two" in line)
    short = cut(line, 24, "…")
    assert short.endswith("…")
    assert isinstance(short, Emphasized)
    assert [short[start:end] for start, end in short.parts] == ["two"]


def test_a_hunk_takes_in_no_more_lines_than_it_says() -> None:
    text = "@@ -1,1 +1,1 @@\n-a\n+b\n+c\nwords after it\n- a list\n- of things"
    assert shown(text)[2:] == [
        "plain   +c",
        "plain   words after it",
        "plain   - a list",
        "plain   - of things",
    ]


def test_a_hostile_difference_neither_fails_nor_steers_the_terminal() -> None:
    chosen = random.Random(7)
    pieces = [
        "@@ -1,3 +1,3 @@",
        "@@ -9999999999 +1 @@",
        "-",
        "+",
        " ",
        "--- x",
        "+++ x",
        "\\",
        "\x1b[2J",
        "\u202e",
        "a",
    ]
    for _ in range(300):
        text = "\n".join("".join(chosen.choices(pieces, k=2)) for _ in range(12))
        lines = [line for _, line in number_diff(text)]
        assert not any(char < " " or char == "\u202e" for line in lines for char in line)


def test_the_words_of_very_many_and_very_long_lines_are_not_compared() -> None:
    before = [f"x{n} = {n}" for n in range(3000)] + ["y " * 5000]
    after = [f"x{n} = {n + 1}" for n in range(3000)] + ["z " * 5000]
    began = time.process_time()
    lines = diff_text("\n".join(before), "\n".join(after))
    assert len(lines) > 6000
    assert time.process_time() - began < 20


def test_a_difference_in_the_middle_of_a_file_has_the_numbers_of_the_file() -> None:
    assert [line.rstrip() for _, line in diff_text("a\nb", "a\nc", first_line=41)] == [
        " 41  41  a", " 42     -b", "     42 +c",
    ]  # fmt: skip


def test_no_change_is_called_so() -> None:
    assert diff_text("a", "a") == [("quiet", "(no difference)")]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("", "a\nb\n", ["      1 +a", "      2 +b"]),
        ("", "a", ["      1 +a", "         No newline at end of file"]),
        ("", "a\n\n", ["      1 +a", "      2 +"]),
        ("", "\n", ["      1 +"]),
        ("a\nb\n", "", ["  1     -a", "  2     -b"]),
        ("a\n", "a\nb\n", ["  1   1  a", "      2 +b"]),
        ("a", "a\n", ["  1     -a", "         No newline at end of file", "      1 +a"]),
        ("a\nb", "a\nc", ["  1   1  a", "  2     -b", "      2 +c"]),
    ],
)
def test_a_new_file_has_its_own_lines_and_no_others(before: str, after: str, lines: list[str]) -> None:
    assert [line.rstrip() for _, line in diff_text(before, after)] == lines


@pytest.mark.parametrize("seed", range(60))
def test_the_numbers_of_a_difference_are_those_of_the_lines_in_both_files(seed: int) -> None:
    chosen = random.Random(seed)
    before, after = ("\n".join(chosen.choices("abc", k=chosen.randrange(7))) for _ in "12")
    before, after = (f"{text}\n" if text and chosen.random() < 0.7 else text for text in (before, after))
    for _, line in diff_text(before, after) if before != after else ():
        old, new, text = line[:3].strip(), line[4:7].strip(), line[9:]
        assert not old or before.split("\n")[int(old) - 1] == text
        assert not new or after.split("\n")[int(new) - 1] == text
        assert not new or int(new) <= len(after.splitlines())
