"""Which tests a word of `tests/run` means: those of the core, or of one extension (a wing).

An extension is called as its package: one of `SHIPPED` in `agent/extensions/registry.py`, or a folder below
`agent/extensions` or `ui/extensions` with an `EXTENSION`. Its tests are in the folders of that name, in the
files whose names begin with it (`test_NAME_kills.py`), and at the places below.
"""

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
NO_TESTS = ("support", "fixtures", "recordings", "bench")
CORE = ("unit/state", "unit/actions", "unit/agent", "unit/ui", "crash", "databases", "terminal")
"""Where the tests of the core are, among those of extensions."""
PLACES = {
    "agents": ("crash/agents/*hub_*", "crash/agents/*hand_off*", "crash/agents/*sub_agent*",
               "crash/agents/*workflow*", "terminal/chat/sub_agents"),
    "evaluation": ("unit/agent/trials/evaluation", "crash/trials/*evaluation*"),
    "extraction": ("databases/texts/test_fact*",),
    "fleet": ("crash/fleet", "unit/state/fleet"),
    "flows": ("crash/test_flow_kills.py", "terminal/chat/test_flows_shown.py"),
    "hooks": ("crash/kills/test_hook_kills.py",),
    "http_tools": ("unit/actions/tools/http",),
    "memory": ("databases/texts/test_fact*",),
    "plans": ("crash/kills/test_resumed_plans.py", "crash/test_notebook_kills.py",
              "unit/ui/terminal/test_plan_questions.py"),
    "python_code": ("unit/actions/tools/python", "crash/test_python_kills.py"),
    "replay": ("unit/agent/history/test_made_calls.py",),
    "retrieval": ("databases/texts/test_knowledge*", "databases/texts/test_vectors.py"),
    "server": ("terminal/web_chat",),
    "skills": ("unit/agent/brought",),
    "tracking": ("terminal/tracking",),
}  # fmt: skip
"""Tests of an extension that are not called after it."""
OF_THE_CORE = (TESTS / "databases/test_server_stores.py",)
"""Tests that are called as if they were of an extension."""


class UnknownWord(Exception):
    """A word that is neither a path nor a name of tests."""


def list_wings() -> list[str]:
    """Return the names of the extensions, sorted."""
    tree = ast.parse((ROOT / "agent/extensions/registry.py").read_text("utf-8"))
    shipped = [
        home.rpartition(".")[2]
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SHIPPED"
        for home in ast.literal_eval(node.value)
    ]
    files = (file for layer in ("agent", "ui") for file in ROOT.glob(f"{layer}/extensions/*/__init__.py"))
    declared = [file.parent.name for file in files if "\nEXTENSION = " in file.read_text("utf-8")]
    return sorted({*shipped, *declared})


def list_files(*places: Path) -> list[Path]:
    """Return the files of tests at these places, sorted."""
    found = {file for place in places for file in ([place] if place.is_file() else place.rglob("test_*.py"))}
    return sorted(file for file in found if file.relative_to(TESTS).parts[0] not in NO_TESTS)


def list_wing(name: str) -> list[Path]:
    """Return the files of the tests of an extension."""
    wings = list_wings()
    if name not in wings:
        raise UnknownWord(f"There is no extension {name}. There are: {', '.join(wings)}.")
    folders = [path for path in TESTS.rglob(name) if path.is_dir()]
    named = [
        file for file in list_files(TESTS) if file.stem.startswith(f"test_{name}") and file not in OF_THE_CORE
    ]
    placed = [path for pattern in PLACES.get(name, ()) for path in TESTS.glob(pattern)]
    return list_files(*folders, *named, *placed)


def list_core() -> list[Path]:
    """Return the files of the tests of what is there without any extension."""
    of_wings = {file for name in list_wings() for file in list_wing(name)}
    return [file for file in list_files(*(TESTS / place for place in CORE)) if file not in of_wings]
