"""What the gate takes words for, and what bash makes of them."""

import os
import re
import subprocess
from itertools import product
from pathlib import Path

import pytest
from support.row_by_row import for_each

from sandbur.actions.tools.shell.language.parser import ShellReader
from sandbur.actions.tools.shell.language.programs.steps import (
    ShellLoop,
    UnclearStructure,
    UnclearWord,
    expand,
    quote_word,
    read_steps,
    turns,
)
from sandbur.agent.policy.shell.file_patterns import expand_files

PIECES = (
    "a", "b", "ab", ".x", "*", "?", "[ab]", "[!a]", "[a-b]", "'*'", '"?"', "\\*", "'[a'", "']'", "{a,b}",
    "{b,'*'}", "{1..3}", "~", "~/", "'~'", "x=", "=", ":", "/", "d/", "'d/'", "..", "{}", "HEAD@{1}", "{a",
    "[", "]", "-r", "$'*'", "'a b'",
)  # fmt: skip
NAMES = (
    "a", "b", "ab", "ba", "[ab]", "*", "?", "1", "2", ".x", ".ab", "-r", "~", "{a,b}", "x=a", "d/a", "d/b",
    "d/.x", "d/*", "a b",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("names")
    for name in NAMES:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("x")
    return place


def words_by_the_gate(text: str, here: Path) -> list[str] | None:
    """Return the arguments that a command is looked at with; None where the gate asks."""
    reader = ShellReader(text)
    reader.read()
    try:
        steps = read_steps(reader.parts)
        found: list[str] = []
        for step in steps:
            names = [
                tuple(quote_word(name) for word in loop.words for one in expand([word], {})
                      for name in expand_files(one, str(here))[0])
                for loop in step.loops
            ]  # fmt: skip
            loops = [ShellLoop(loop.name, values) for loop, values in zip(step.loops, names, strict=True)]
            for values in turns(loops):
                for word in expand(step.mark_words(), values):
                    found += expand_files(word, str(here))[0]
    except (UnclearWord, UnclearStructure):
        return None
    return found


def words_by_bash(texts: list[str], here: Path, home: str) -> list[list[str] | None]:
    """Return the same as bash sees it; None where it refuses the text."""
    script = "p() { printf 'p\\0'; printf '%s\\0' \"$@\"; }\n"
    script += "\n".join(f"eval {_quote(text)} 2>/dev/null; printf '\\1\\0'" for text in texts)
    done = subprocess.run(
        ["bash", "-s"],
        cwd=here,
        env={"PATH": os.environ["PATH"], "HOME": home},
        input=script.encode(),
        capture_output=True,
        check=False,
    )
    found = [part.split("\0")[:-1] for part in done.stdout.decode().split("\1\0")[:-1]]
    assert len(found) == len(texts)
    return [words or None for words in found]


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.mark.slow
def test_words_are_what_bash_makes_of_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder / "d"))
    texts = [f"p {''.join(pieces)}" for count in (1, 2, 3) for pieces in product(PIECES, repeat=count)]
    texts += [f'for f in {"".join(pieces)}; do p "$f"; done' for pieces in product(PIECES, repeat=2)]
    texts += [f"for f in {''.join(pieces)}; do p x$f; done" for pieces in product(PIECES, repeat=2)]
    compared = 0
    theirs = words_by_bash(texts, folder, str(folder / "d"))
    for text, expected in zip(texts, theirs, strict=True):
        ours = words_by_the_gate(text, folder)
        if ours is None or expected is None:
            continue
        compared += 1
        # Behind a pattern bash makes one slash of two.
        ours, expected = ([re.sub("//+", "/", word) for word in words] for words in (ours, expected))
        # Ranges depend on the language and `.*` on the shell's age, so more may be looked at than bash finds.
        assert set(expected) <= set(ours), text
        if not re.search(r"\[[^\]]*[-!]|\.", text):
            assert ours == expected, text
    assert compared > 20_000


@for_each(
    "text",
    [
        "cat x=~/n",
        "cat x=a:~/n",
        "cat ~root/n",
        "cat ~+/n",
        'cat ~"/n"',
        "cat ~:x",
        "cat [[:alpha:]]",
        "cat [a",
        "cat {a..c}",
        "cat {a,b",
        "cat {,a}",
        "cat $x",
        "cat $(ls)",
        'cat "$(ls)"',
        "cat `ls`",
        "cat 'x'$'\\n'$y",
        "cat [a'b']",
        "for f in $x; do cat $f; done",
        "for PATH in .; do ls; done",
        "for f in a; do for f in b; do cat $f; done; done",
        "for f in 'a b'; do cat $f; done",
        "for f in a; do ls; done; cat $f",
        "for f; do cat $f; done",
        "case a in a) ls;; esac",
        "cat {1..900}",
        "select f in a; do ls; done",
        "if ls; done",
        "ls; fi",
        "(ls",
        "for f in {1..40}{1..40}; do ls; done",
    ],
)
def test_what_is_not_understood_is_said_to_be_so(folder: Path, text: str) -> None:  # fmt: skip
    assert words_by_the_gate(text, folder) is None


@pytest.mark.parametrize("name", ["GLOBIGNORE", "BASH_ENV", "BASHOPTS"])
def test_a_shell_that_is_set_up_otherwise_makes_patterns_unclear(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert words_by_the_gate("cat a*", folder) == ["cat", "a", "a b", "ab"]
    monkeypatch.setenv(name, "dotglob")
    assert words_by_the_gate("cat a*", folder) is None
    assert words_by_the_gate("cat 'a*'", folder) == ["cat", "a*"]
