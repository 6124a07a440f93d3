"""The house rules: who may import whom, what a folder shows, who may print, catch everything or speak SQL."""

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from support.places import ROOT

LAYERS = ("state", "actions", "agent", "ui")
HEAVY = ("openai", "anthropic", "burr", "rich", "prompt_toolkit", "genai_prices", "pydantic", "jsonschema_rs")
MAX_FILE_LINES, MAX_FUNCTION_LINES = 500, 50
BROAD_BORDERS = {
    "actions/turn/bugs_logged.py",  # what is worked out for a question
    "actions/turn/calls/tool_runner.py",
    "actions/turn/user_code.py",  # the text of an exception may be code of the user
    "agent/session/run.py",
    "agent/review/evaluation/adapters/inspect_model.py",  # the errors of every provider that inspect knows
    "agent/extensions/active_tools/tool_discovery.py",  # runs modules of somebody else's
    "agent/extensions/registry.py",  # loads extensions of other packages
    "agent/sdk/loading.py",  # the same
    "state/databases/group_commit.py",  # the thread hands every failure to whoever waits
    "ui/cli/main.py",
}

SOURCES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in SOURCES}
MODULES = {name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name in TEXTS}


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(TEXTS[name])


@cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(name)))


def everywhere(rule: Callable[[str], None]) -> Callable[[], None]:
    """Hold every file to a rule, in one test: a test a file took longer than what it looks at."""

    def holds_everywhere() -> None:
        broken: list[str] = []
        for name in TEXTS:
            try:
                rule(name)
            except AssertionError as error:
                broken.append(f"{name}: {error}")
        assert not broken, "\n".join(broken)

    holds_everywhere.__name__, holds_everywhere.__doc__ = rule.__name__, rule.__doc__
    return holds_everywhere


SHORT_IDEAS = {
    "agent/runtime/version.py": "read by the build, too",
    "ui/web/command.py": "flags are loaded without the server",
    "ui/__main__.py": "lets `python -m sandbur` be the command",
}
"""Files under 20 lines, with their reason."""
ONE_IMPORTER = {
    "actions/turn/calls/whole_output.py": "the whole output of a command is found here, and is no result yet",
    "actions/tools/shell/sandbox/seatbelt.py": "a sandbox in the language of macOS",
    "actions/tools/files/grep.py": "each tool is a file",
    "ui/terminal/sized_console.py": "a class of rich, which is loaded when a console is made",
    "ui/cli/process_start.py": "loaded once it is known that a command runs",
    "ui/commands/flows/command.py": "flags are loaded without what the command does",
    "actions/tools/shell/failure_hints.py": "loaded after a command failed",
    "agent/fleet/cluster/worker_actor.py": "Ray imports it in the processes of its actors, by this name",
    "agent/models/transport/aws_events.py": "a wire format that needs an optional library",
    "agent/models/demo/sample.py": "makes a value of a JSON schema, and knows nothing of the demo",
}
"""Modules under 60 lines that only a neighbour imports, with their reason."""


def imports(name: str, body_only: bool = False) -> Iterator[str]:
    """Yield the modules that a file imports, ours without `sandbur.`."""
    package = name.split("/")[:-1]
    for node in tree(name).body if body_only else nodes(name):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield whole if whole in MODULES else base
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def tops(name: str) -> set[str]:
    return {module.split(".")[0] for module in imports(name)}


SEAMS = {
    "a command": (
        "ui/cli/",
        "ui/commands/",
        "ui/headless/",
        "ui/web/",
        "agent/config/",
        "state/process/installation.py",
    ),
    "a slash command, or what only a terminal needs": ("ui/chat/", "ui/terminal/"),
    "a provider's wire": ("agent/models/", "agent/sdk/"),
    "a database": ("state/databases/",),
    "an extension": ("agent/extensions/", "agent/history/", "agent/runtime/", "ui/server/facades/mcp/"),
    "the gate and the work of a tool": (
        "agent/session/",
        "actions/tools/",
        "actions/turn/output/json_schema.py",
    ),
    "a plugin of pytest": ("ui/pytest_plugin.py",),
}
"""What is loaded only when it is used -> where that is decided: the only places with imports in functions."""
MAX_LATE_IMPORTS = 74


def _late_imports(name: str) -> int:
    functions = (n for n in nodes(name) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    late = {n for f in functions for n in ast.walk(f) if isinstance(n, ast.Import | ast.ImportFrom)}
    return len(late)


def test_imports_stand_at_the_top_except_at_declared_seams() -> None:
    late = {name: count for name in TEXTS if (count := _late_imports(name))}
    places = tuple(place for several in SEAMS.values() for place in several)
    assert {name for name in late if not name.startswith(places)} == set()
    assert sum(late.values()) <= MAX_LATE_IMPORTS


PARTICIPLES = re.compile(
    r"_*(?!need|feed|seed|exceed|proceed|embed)(?:[a-z]+ed|said|told|shown|heard|known|kept|held|left|made|found|sent"
    r"|built|begun|done|gone|brought|taken|given|written|seen|lost|chosen|drawn|asked)(?:_|$)"
)


def test_functions_are_named_by_verbs() -> None:
    functions = [
        n.name for name in TEXTS for n in nodes(name) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    participles = [name for name in functions if PARTICIPLES.match(name)]
    assert len(participles) / len(functions) < MAX_PARTICIPLES, sorted(participles)


MAX_PARTICIPLES = 0.01


@everywhere
def test_imports_point_one_way(name: str) -> None:
    own = LAYERS.index(name.split("/")[0])
    assert not tops(name) & set(LAYERS[own + 1 :])


@everywhere
def test_the_product_imports_itself_relatively(name: str) -> None:
    absolute = [n for n in nodes(name) if isinstance(n, ast.ImportFrom) and not n.level]
    assert not {node.module.split(".")[0] for node in absolute if node.module} & {"sandbur", *LAYERS}


def test_no_two_modules_import_each_other() -> None:
    """At their top: there the order of loading would decide which of the two works."""
    reached: dict[str, set[str]] = {}
    for name in TEXTS:
        module = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        reached[module] = {found for found in imports(name, body_only=True) if found in MODULES}
    settled: set[str] = set()
    while ready := {m for m, needs in reached.items() if m not in settled and needs <= settled | {m}}:
        settled |= ready
    assert settled == set(reached)


def test_files_hold_one_idea_of_sixty_to_five_hundred_lines() -> None:
    lines = {name: len(text.splitlines()) for name, text in TEXTS.items() if not name.endswith("__init__.py")}
    assert {name for name, count in lines.items() if count > MAX_FILE_LINES} == set()
    assert {name for name, count in lines.items() if count < 20} == set(SHORT_IDEAS)
    assert 120 <= sorted(lines.values())[len(lines) // 2] <= 200


@everywhere
def test_a_module_says_what_it_is_for(name: str) -> None:
    assert ast.get_docstring(tree(name))


def test_a_module_has_an_importer_outside_of_its_folder_or_a_reason() -> None:
    importers: dict[str, set[str]] = defaultdict(set)
    for name in TEXTS:
        for module in imports(name):
            importers[module].add(name)
    lonely: set[str] = set()
    for name, text in TEXTS.items():
        module = name.removesuffix(".py").replace("/", ".")
        users = importers[module] - {name}
        if len(users) == 1 and len(text.splitlines()) < 60:
            (user,) = users
            if Path(user).parent == Path(name).parent:
                lonely.add(name)
    assert lonely == set(ONE_IMPORTER)


def test_no_public_class_shares_its_name_with_another_class_or_a_name_of_a_type() -> None:
    classes: Counter[str] = Counter()
    types: Counter[str] = Counter()
    for name in TEXTS:
        for node in tree(name).body:
            if isinstance(node, ast.ClassDef):
                classes[node.name] += 1
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                types[node.targets[0].id] += 1
    shared = {name for name, count in classes.items() if count + types[name] > 1}
    assert {name for name in shared if not name.startswith("_")} == set()


@everywhere
def test_a_function_is_at_most_50_lines(name: str) -> None:
    for node in nodes(name):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < MAX_FUNCTION_LINES, node.name


TOOLS_ARE_NAMED = {
    "actions/tools/registry.py": "makes those of the network by name, and loads none of them before",
    "agent/models/demo/demo_model.py": "plays a model, which calls tools by their names",
    "agent/policy/rules/rules.py": "the example in a help text",
    "ui/commands/setup/help.py": "examples of rules",
}
"""Files that name a tool which is not their own, with their reason."""


@cache
def files_of_tools() -> dict[str, str]:
    """Return the name of every tool -> the file that it stands in."""
    from sandbur.actions.tools.registry import NETWORK_TOOLS, result_reader, toolbox_of
    from sandbur.actions.turn.plan.decision_tools import RESERVED_NAMES

    shipped = toolbox_of(NETWORK_TOOLS) | result_reader()
    modules = {name: type(tool).__module__.removeprefix("sandbur.") for name, tool in shipped.items()}
    return {
        **{name: f"{module.replace('.', '/')}.py" for name, module in modules.items()},
        **dict.fromkeys(RESERVED_NAMES, "actions/turn/plan/decision_tools.py"),
        "equip_tools": "agent/extensions/active_tools/equip_tools.py",
        "search_tools": "agent/extensions/active_tools/search_tools.py",
        "read_skill": "agent/extensions/skills/read_skill.py",
    }


PROGRAMS = ("grep",)
"""Tools whose name a program of the shell has, too."""


@everywhere
def test_tools_are_named_in_their_own_files_only(name: str) -> None:
    """A tool that ships may point to a neighbour in a text for the model."""
    if name in TOOLS_ARE_NAMED:
        return
    texts = [n.value for n in nodes(name) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    for tool, file in files_of_tools().items():
        if file == name or (tool in PROGRAMS and name.startswith("actions/tools/shell/")):
            continue
        assert tool not in texts
        if "_" in tool and not name.startswith("actions/tools/"):
            assert not [text for text in texts if re.search(rf"\b{tool}\b", text)], tool


@everywhere
def test_what_the_tools_of_servers_begin_with_is_written_once(name: str) -> None:
    if name != "actions/tools/registry.py":
        documentation = {n.value for n in nodes(name) if isinstance(n, ast.Expr)}
        texts = [n for n in nodes(name) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        assert not [text.value for text in texts if "mcp__" in str(text.value) and text not in documentation]


@everywhere
def test_the_workspace_knows_no_tool_and_no_model(name: str) -> None:
    if name.startswith("actions/workspace/"):
        above = ("actions.ports.", "actions.tools.", "actions.turn.")
        assert not [module for module in imports(name) if f"{module}.".startswith(above)]


SQL = re.compile(r"\b(SELECT\s.+\sFROM|INSERT INTO|UPDATE\s\S+\sSET|DELETE FROM|CREATE TABLE)\b", re.S)


@everywhere
def test_only_state_speaks_sql(name: str) -> None:
    if not name.startswith("state/"):
        texts = (n.value for n in nodes(name) if isinstance(n, ast.Constant))
        assert not [text for text in texts if isinstance(text, str) and SQL.search(text)]


@everywhere
def test_no_query_searches_what_was_said(name: str) -> None:
    """The rows say where a message is; what stands in it is anybody's."""
    assert "body LIKE" not in TEXTS[name]


@everywhere
def test_only_ui_prints_and_imports_rich(name: str) -> None:
    if name.startswith("ui/"):
        return
    assert not {"rich", "prompt_toolkit"} & tops(name)
    calls = (node.func for node in nodes(name) if isinstance(node, ast.Call))
    assert not any(isinstance(call, ast.Name) and call.id == "print" for call in calls)


@everywhere
def test_everything_is_caught_at_the_borders_only(name: str) -> None:
    for node in nodes(name):
        if isinstance(node, ast.ExceptHandler) and name not in BROAD_BORDERS:
            assert node.type is not None
            caught = {part.id for part in ast.walk(node.type) if isinstance(part, ast.Name)}
            assert not caught & {"Exception", "BaseException"} or _raises_again(node)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(node, ast.Raise) and node.exc is None for node in ast.walk(handler))


@pytest.mark.parametrize("package", ["sandbur", *(f"sandbur.{layer}" for layer in LAYERS)])
def test_a_package_costs_nothing_to_import(package: str) -> None:
    code = f"import sys, {package}; print([name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert run.stdout.strip() == "[]"


def test_the_command_line_imports_nothing_heavy_for_help() -> None:
    code = (
        "import sys\ntry:\n    from sandbur.ui.cli.main import main\n    sys.argv = ['sandbur', '--help']\n"
        "    main()\nexcept SystemExit: pass\n"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "HEAVY []" in run.stdout
