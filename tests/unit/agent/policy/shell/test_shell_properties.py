"""Properties of rules and of the shell reader, on texts that nobody wrote, with another parser to compare."""

from collections.abc import Iterator

import pytest
import tree_sitter_bash
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.samples.commands import DENIED, MENTIONS, READS
from support.samples.texts import any_text
from tree_sitter import Language, Node, Parser

from sandbur.actions.tools.shell.language.parser import ShellReader
from sandbur.agent.policy.rules.rules import exact_rule, literal_of, parse_rule
from sandbur.agent.policy.rules.shell_rules import covers, hits, read_commands
from sandbur.agent.policy.shell.seen_commands import look

pytestmark = pytest.mark.slow

RESERVED = frozenset((
    "coproc", "if", "then", "elif", "else", "fi", "for", "in", "while", "until", "do", "done", "case", "esac",
    "function",
))  # fmt: skip
"""What the other parser takes for a command after `!`; no unquoted command can be called so."""
PARSER = Parser(Language(tree_sitter_bash.language()))
WORDS = st.sampled_from(
    ["ls", "cat", "rm", "a", "-x", "b.txt", "'q r'", '"d e"', "c\\ d", "$V", '"$V"', "*", "2>&1"]
)
SIMPLE = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
JOINTS = st.sampled_from(["; ", " && ", " || ", " | ", "\n", " & "])


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    forms = ("({})", "{{ {}; }}", "echo $({})", 'echo "$({})"', "if {}; then {}; fi", "! {}",
             "for x in a; do {}; done", "while {}; do {}; done",
             "cat <({})", "echo `ls`; {}", "{} > out", "A=1 {}")  # fmt: skip
    formed = st.builds(lambda form, text: form.format(text, text), st.sampled_from(forms), inner)
    return formed | st.builds(lambda a, joint, b: a + joint + b, inner, JOINTS, inner)


TEXTS = st.recursive(SIMPLE, _nested, max_leaves=6)
ANYTHING = st.text(st.sampled_from(" \n\t'\"\\$`(){}[]<>|&;#!*?~=abrm-/"), max_size=60)


def names_by_the_other(text: str) -> list[str] | None:
    """Return the plain names of commands that the other parser finds; None if it is not sure of the text."""
    root = PARSER.parse(text.encode()).root_node
    if root.has_error:
        return None
    return [name for name in _names(root) if name.isalnum() and name not in RESERVED]


def _names(node: Node) -> Iterator[str]:
    if node.is_missing:
        return
    found = node.child_by_field_name("name") if node.type == "command" else None
    if found is not None and found.text is not None:
        yield found.text.decode()
    for child in node.children:
        yield from _names(child)


@settings(deadline=None, max_examples=300)
@given(TEXTS)
@example("cat <<E\n$(rm x)\nE\nls")
@example("ls $(a; rm)")
def test_the_reader_sees_every_command_that_another_parser_sees(text: str) -> None:
    names = names_by_the_other(text)
    assume(names is not None)
    seen = {command.program for command in look(text).commands}
    assert set(names or ()) <= seen


def test_both_parsers_agree_on_what_people_write() -> None:
    compared = 0
    for text in (*DENIED, *MENTIONS, *READS):
        names = names_by_the_other(text)
        if names is not None:
            compared += 1
            assert set(names) <= {command.program for command in look(text).commands}, text
    assert compared > 200


@settings(deadline=None, max_examples=300)
@given(st.lists(SIMPLE.map("ls ".__add__) | SIMPLE, min_size=1, max_size=3), JOINTS)
def test_what_is_covered_is_what_another_parser_sees_too(parts: list[str], joint: str) -> None:
    text = joint.join(parts)
    commands, doubts = read_commands(text)
    if commands and not doubts and all(covers("ls*", command) for command in commands):
        assert set(names_by_the_other(text) or ["ls"]) == {"ls"}


@settings(deadline=None, max_examples=300)
@given(TEXTS, JOINTS, TEXTS)
def test_a_denied_command_is_found_wherever_it_stands(before: str, joint: str, after: str) -> None:
    assert hits("unlink *", f"{before}{joint}unlink x{joint}{after}")


@settings(deadline=None, max_examples=300)
@given(ANYTHING)
def test_no_text_makes_the_readers_fail(text: str) -> None:
    reader = ShellReader(text)
    reader.read()
    assert all(len(command.words) == len(command.computed) for command in reader.commands)
    look(text)
    hits("rm *", text)


@settings(deadline=None)
@given(any_text(min_size=1, max_size=40))
def test_an_exact_rule_means_its_command_and_no_other(subject: str) -> None:
    assume(subject.strip())
    rule = parse_rule(exact_rule("tool", subject))
    assert literal_of(rule.pattern or "") == subject.strip()


@settings(deadline=None)
@given(
    st.sampled_from(["git diff", "ls", "npm test", "cargo build"]), st.text("abcxyz-", min_size=1, max_size=6)
)
def test_a_star_behind_a_word_ends_with_the_word(command: str, more: str) -> None:
    [longer], _ = read_commands(command + more)
    [separate], _ = read_commands(f"{command} a{more}")
    assert not covers(f"{command}*", longer)
    assert covers(f"{command}*", separate)
