"""Splits code by its definitions with the grammars of tree-sitter, if they are installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from .line_chunks import Chunk, chunk_lines
from .structured_chunks import MOST_PARSED_CHARS, CodeDefinition, chunk_definitions, find_first_line


class _Grammar(NamedTuple):
    module: str
    suffixes: tuple[str, ...]
    function: str = "language"
    """The function of the module that returns the grammar."""
    comments: tuple[str, ...] = ("//", "/*", "*")
    """The beginnings of lines that belong to the definition below them."""


_GRAMMARS = (
    _Grammar("tree_sitter_javascript", (".js", ".mjs", ".cjs", ".jsx")),
    _Grammar("tree_sitter_typescript", (".ts", ".mts", ".cts"), "language_typescript"),
    _Grammar("tree_sitter_typescript", (".tsx",), "language_tsx"),
    _Grammar("tree_sitter_go", (".go",)),
    _Grammar("tree_sitter_rust", (".rs",), comments=("//", "/*", "*", "#[")),
    _Grammar("tree_sitter_java", (".java",)),
    _Grammar("tree_sitter_c", (".c",)),
    # Headers may be C or C++. The grammar of C++ reads both.
    _Grammar("tree_sitter_cpp", (".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx")),
    _Grammar("tree_sitter_ruby", (".rb",), comments=("#",)),
    _Grammar("tree_sitter_bash", (".sh", ".bash"), comments=("#",)),
)
_BY_SUFFIX = {suffix: grammar for grammar in _GRAMMARS for suffix in grammar.suffixes}
_NAMED = """
    function_declaration generator_function_declaration function_definition function_item method
    method_definition method_declaration constructor_declaration singleton_method macro_definition
    type_alias_declaration type_declaration type_definition"""
_CONTAINERS = """
    class class_declaration abstract_class_declaration class_specifier struct_specifier union_specifier
    enum_specifier interface_declaration enum_declaration record_declaration annotation_type_declaration
    struct_item enum_item trait_item impl_item mod_item module internal_module namespace_definition"""
"""Definitions that contain others."""
_WRAPPERS = """
    export_statement ambient_declaration expression_statement template_declaration lexical_declaration
    variable_declaration"""
"""Statements around one definition."""
_BODIES = """
    declaration_list class_body interface_body enum_body enum_body_declarations field_declaration_list
    statement_block body_statement linkage_specification preproc_ifdef preproc_if preproc_else"""
"""Nodes around several definitions that have no name."""
_VALUES = "arrow_function function_expression generator_function class"
"""What makes a variable a definition."""
_Kind = Literal["named", "container", "wrapper", "body", "value"]
_KINDS: Mapping[_Kind, frozenset[str]] = {
    "named": frozenset(_NAMED.split()),
    "container": frozenset(_CONTAINERS.split()),
    "wrapper": frozenset(_WRAPPERS.split()),
    "body": frozenset(_BODIES.split()),
    "value": frozenset(_VALUES.split()),
}


def has_grammar(suffix: str) -> bool:
    """Return whether there is a grammar for files with a suffix such as `.go`. It may not be installed."""
    return suffix in _BY_SUFFIX


def chunk_code(text: str, suffix: str) -> list[Chunk]:
    """Return the definitions of a text with their qualified names, and the lines between them.

    Without the grammar, or if a text is nested too deeply, it is split by its lines.
    """
    lines = text.split("\n")
    grammar = _BY_SUFFIX[suffix]
    parser = _make_parser(grammar)
    if parser is None or len(text) > MOST_PARSED_CHARS:
        return chunk_lines(lines)
    root = parser.parse(text.encode("utf-8", "replace")).root_node
    try:
        found = list(_list_definitions(root, lines, grammar.comments))
        return list(chunk_definitions(lines, found, 0, len(lines)))
    except RecursionError:
        return chunk_lines(lines)


@cache
def _make_parser(grammar: _Grammar) -> Any:
    """Return a parser, or None if the extra `code` is not installed."""
    try:
        tree_sitter: Any = importlib.import_module("tree_sitter")
        module = importlib.import_module(grammar.module)
        return tree_sitter.Parser(tree_sitter.Language(getattr(module, grammar.function)()))
    # A grammar of another generation than the library is a `ValueError`.
    except (ImportError, AttributeError, ValueError):
        return None


def _list_definitions(
    parent: Any, lines: Sequence[str], comments: tuple[str, ...]
) -> Iterator[CodeDefinition]:
    for node in parent.named_children:
        defined = _find_definition(node)
        if defined is not None:
            begin = find_first_line(lines, node.start_point.row, comments)
            stop = node.end_point.row + (node.end_point.column > 0)
            inner = _list_definitions(defined, lines, comments) if _is(defined, "container") else ()
            yield CodeDefinition(begin, stop, _find_name(defined), tuple(inner))
        elif _is(node, "body"):
            yield from _list_definitions(node, lines, comments)


def _find_definition(node: Any) -> Any:
    """Return the definition that a node is, or that it wraps; None if there is none with a name."""
    if _is(node, "named") or _is(node, "container"):
        return node if _find_name(node) else None
    if node.type == "variable_declarator":
        value = node.child_by_field_name("value")
        return node if value is not None and _is(value, "value") else None
    if _is(node, "wrapper"):
        inside = (_find_definition(child) for child in node.named_children)
        return next((one for one in inside if one is not None), None)
    return None


def _is(node: Any, kind: _Kind) -> bool:
    return node.type in _KINDS[kind]


def _find_name(node: Any) -> str:
    """Return the name of a definition, in Go with the type of its receiver; empty if it has none."""
    name = node.child_by_field_name("name")
    if name is None and node.type == "type_declaration":
        specs = (child.child_by_field_name("name") for child in node.named_children)
        name = next((one for one in specs if one is not None), None)
    if name is None and node.type == "impl_item":
        name = node.child_by_field_name("type")
    declarator = node.child_by_field_name("declarator")
    while name is None and declarator is not None:
        inside = declarator.child_by_field_name("declarator")
        name = declarator if inside is None else None
        declarator = inside
    if name is None:
        return ""
    owner = node.child_by_field_name("receiver")
    return f"{_read_receiver(owner)}{_read(name)}" if owner is not None else _read(name)


def _read_receiver(owner: Any) -> str:
    """Return the type of the receiver of a method with a dot, such as `Server.`."""
    words = _read(owner).strip("()").replace("*", " ").partition("[")[0].split()
    return f"{words[-1]}." if words else ""


def _read(node: Any) -> str:
    return " ".join(node.text.decode("utf-8", "replace").split())[:200]
