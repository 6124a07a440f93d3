"""The page about environment variables is complete, and names none that has no effect."""

import ast
import re

import pytest
from support.places import ROOT

from sandbur.agent.config.settings import SETTINGS
from sandbur.agent.models.providers import PROFILES
from sandbur.agent.policy.shell.inner_commands.variables import STARTING_PROGRAMS

pytestmark = pytest.mark.slow

LAYERS = ("state", "actions", "agent", "ui")
PAGE = (ROOT / "docs" / "environment.md").read_text("utf-8")
SPELLED = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+|EDITOR|VISUAL")
OF_EVERY_PROGRAM = """
HOME TERM COLUMNS LINES LANG DISPLAY PAGER MANPAGER PYTHONUNBUFFERED TMPDIR PGPASSWORD TRACEPARENT TRACESTATE
"""
"""Read by libraries, or spelled like other words."""

# What looks like a variable of the environment in the code, and is none that a person sets.
NO_VARIABLES = {
    "MAX_TOKENS": "why a reply of Gemini ends",
    "FIRST_COMPLETED": "a constant of asyncio",
    "KW_ONLY": "a name of dataclasses",
    "DAC_OVERRIDE": "a right of Linux",
    "CAP_DAC_OVERRIDE": "a right of Linux",
    "F_SETPIPE_SZ": "a constant of fcntl", "O_PATH": "a constant of os",
    "CLOCK_BOOTTIME": "a clock of the system",
    "SC_PAGE_SIZE": "asked of sysconf", "SC_PHYS_PAGES": "asked of sysconf",
    "PC_VDISABLE": "asked of fpathconf",
    "AZURE_OPENAI": "the beginning of names that commands do not see",
    "GOOGLE_GENERATIVE_AI": "the beginning of names that commands do not see",
    "CLAUDE_CODE_OAUTH_TOKEN": "commands do not see it",
    "OPENAI_ADMIN_KEY": "commands do not see it",
    "CLICOLOR_FORCE": "commands do not see it", "FORCE_COLOR": "commands do not see it",
    "SANDBUR_COMMAND": "from the agent to a supervisor", "SANDBUR_FOLDER": "from the agent to a supervisor",
    "SANDBUR_TRIAL_BEGINS": "from the command to the process in the copy",
    "SANDBUR_HOOK_FOLDER": "from the agent to the program around a hook",
    "BURR_BACKEND_IMPL": "from the command to the server of Burr",
    "BURR_STORE": "the same", "BURR_TENANT": "the same",
    "GIT_OPTIONAL_LOCKS": "for a git of our own",
    "PIP_NO_CACHE_DIR": "for a pip that may write nowhere",
    "LC_CTYPE": "for a ripgrep of our own", "LD_LIBRARY_PATH": "for programs of our own",
}  # fmt: skip


def variables_of_the_code() -> set[str]:
    """Return every text of the program that is spelled like a variable of the environment."""
    found = {row.variable for row in SETTINGS if row.variable}
    found |= {name for profile in PROFILES.values() for name in (*profile.key_env, *profile.url_env)}
    for layer in LAYERS:
        for path in (ROOT / layer).rglob("*.py"):
            nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
            texts = (node.value for node in nodes if isinstance(node, ast.Constant))
            if "facades" not in path.parts:  # protocols whose names of events are spelled the same
                found |= {text for text in texts if isinstance(text, str) and SPELLED.fullmatch(text)}
            found |= {name for node in nodes for name in looked_up(node)}
    return found


def looked_up(node: ast.AST) -> list[str]:
    """Return the names that are looked up right here: by `get`, in brackets or with `in`."""
    match node:
        case ast.Call(func=ast.Attribute(value=place, attr="get"), args=[ast.Constant(value=str(name)), *_]):
            pass
        case ast.Subscript(value=place, slice=ast.Constant(value=str(name))):
            pass
        case ast.Compare(left=ast.Constant(value=str(name)), comparators=[place]):
            pass
        case _:
            return []
    is_environment = re.search(r"\benv(iron)?$", ast.unparse(place)) is not None
    return [name] if is_environment and name.isupper() else []


def test_every_variable_that_the_code_reads_stands_in_the_page_about_them() -> None:
    cells = re.findall(r"^\| (`.*?) \|", PAGE, re.M)
    named = {name for cell in cells for name in re.findall(r"`([A-Z_]+)`", cell)}
    named |= set(re.findall(r"`([A-Z_]+)`", PAGE.split("## The environment of started programs")[1]))
    earlier = {name for row in SETTINGS for name in row.earlier_names}
    expected = variables_of_the_code() - set(NO_VARIABLES) - earlier
    assert expected - named <= set(STARTING_PROGRAMS)  # of other programs
    usual = set(OF_EVERY_PROGRAM.split())
    assert named - expected <= usual


def test_the_settings_of_the_environment_are_those_of_the_program() -> None:
    section = PAGE.split("## Settings")[1].split("## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|$", section, re.M)
    assert rows == [(row.variable, row.key) for row in SETTINGS if row.variable]
