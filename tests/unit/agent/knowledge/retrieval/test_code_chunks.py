"""Code is split at its definitions by the grammars of tree-sitter, and at blank lines without them."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.places import ROOT

from sandbur.agent.knowledge.retrieval.chunking.code_chunks import chunk_code
from sandbur.agent.knowledge.retrieval.chunking.line_chunks import MOST_CHARS

pytest.importorskip("tree_sitter")
SOURCES = {
    ".js": (
        "import x from 'x'\n// adds\nexport class A {\n  m() {}\n}\nfunction f() {}\nconst g = (a) => {\n}\n",
        [("", 1, 1), ("A", 2, 5), ("f", 6, 6), ("g", 7, 8)],
    ),
    ".ts": (
        "interface I { a: string }\nnamespace N {\n}\nabstract class B {}\nenum E { A }\ntype T = string\n",
        [("I", 1, 1), ("N", 2, 3), ("B", 4, 4), ("E", 5, 5), ("T", 6, 6)],
    ),
    ".tsx": ("export const V = () => <b>x</b>\n", [("V", 1, 1)]),
    ".go": (
        "package a\n\n// F is it\nfunc F() {\n}\nfunc (s *Server) Run() {}\ntype T struct {\n}\n",
        [("", 1, 1), ("F", 3, 5), ("Server.Run", 6, 6), ("T", 7, 8)],
    ),
    ".rs": (
        "use a;\n#[test]\nfn f() {}\nmod m {\n}\nimpl<X> Tr for T {\n}\nenum E {}\n"
        "macro_rules! mm { () => {} }\n",
        [("", 1, 1), ("f", 2, 3), ("m", 4, 5), ("T", 6, 7), ("E", 8, 8), ("mm", 9, 9)],
    ),
    ".java": (
        "package p;\n/** It. */\nclass A {\n  void m() {}\n}\ninterface I {}\nrecord R(int a) {}\n",
        [("", 1, 1), ("A", 2, 5), ("I", 6, 6), ("R", 7, 7)],
    ),
    ".c": (
        "#include <x>\nint f(int a) {\n}\nstatic char *g(void) { return 0; }\ntypedef struct { int b; } T;\n",
        [("", 1, 1), ("f", 2, 3), ("g", 4, 4), ("T", 5, 5)],
    ),
    ".hpp": (
        "namespace n {\nclass A {\n};\n}\ntemplate<class T>\nT t(T a) { return a; }\nvoid n::A::q() {}\n",
        [("n", 1, 4), ("t", 5, 6), ("n::A::q", 7, 7)],
    ),
    ".rb": ("module M\n  class A\n  end\nend\n# it\ndef f\nend\n", [("M", 1, 4), ("f", 5, 7)]),
    ".sh": ("set -e\n# says\nsay() {\n  echo\n}\n", [("", 1, 1), ("say", 2, 5)]),
}
FILLER = "x" * 90


@pytest.mark.parametrize("suffix", SOURCES)
def test_definitions_have_their_names_and_lines(suffix: str) -> None:
    text, expected = SOURCES[suffix]
    assert [(one.title, one.first, one.last) for one in chunk_code(text, suffix)] == expected


def test_a_large_class_is_split_into_its_methods() -> None:
    methods = "".join(f"  m{n}() {{\n    return '{FILLER}'\n  }}\n" for n in range(40))
    found = chunk_code(f"class A {{\n{methods}}}\n", ".js")
    assert [one.title for one in found] == ["A", *(f"A.m{n}" for n in range(40)), "A"]
    inner = "".join(f"void f{n}() {{ /* {FILLER} */ }}\n" for n in range(40))
    assert "n.f7" in [one.title for one in chunk_code(f"namespace n {{\n{inner}}}\n", ".cc")]
    ruby = "".join(f"  def r{n}\n    '{FILLER}'\n  end\n" for n in range(40))
    assert "M.r7" in [one.title for one in chunk_code(f"module M\n{ruby}end\n", ".rb")]


@given(st.text(alphabet="class fnc{}()=>;\n #/\"'é", max_size=400), st.sampled_from(sorted(SOURCES)))
def test_no_line_of_any_text_is_lost_or_doubled(text: str, suffix: str) -> None:
    lines = text.split("\n")
    found = chunk_code(text, suffix)
    covered = [n for one in found for n in range(one.first, one.last + 1)]
    assert len(covered) == len(set(covered))
    assert {n for n, line in enumerate(lines, 1) if line.strip()} <= set(covered)
    assert all(one.text == "\n".join(lines[one.first - 1 : one.last]) for one in found)
    assert all(len(one.text) <= MOST_CHARS for one in found)


def test_a_text_that_is_nested_very_deeply_is_split_by_its_lines() -> None:
    depth = 20_000
    assert chunk_code("namespace n {\n" * depth + "}\n" * depth, ".cc")


def test_without_the_grammars_code_is_split_at_blank_lines() -> None:
    code = (
        "import sys; sys.modules['tree_sitter'] = None\n"
        "from sandbur.agent.knowledge.retrieval.chunking.code_chunks import chunk_code\n"
        "print([(one.title, one.first, one.last) for one in chunk_code('func F() {\\n}\\n', '.go')])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert ended.stdout.strip() == "[('', 1, 2)]"
