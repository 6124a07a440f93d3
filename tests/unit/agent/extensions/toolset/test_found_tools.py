"""Tools that nobody names: of installed packages, and of a trusted project's `.sandbur/tools`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.command import Command

from sandbur.agent.extensions.active_tools.project_tools import project_tools
from sandbur.agent.extensions.active_tools.tool_discovery import FoundTools
from sandbur.agent.runtime.runtime import Runtime
from sandbur.state.errors import ConfigError

TOOL = '''
from dataclasses import dataclass
from sandbur import tool

@dataclass
class Size:
    width: int

@tool(effect="read")
def {name}(size: "Size") -> int:
    """Say how wide something is."""
    return size.width
'''


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "SANDBUR_HOME": str(tmp_path / "data")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".sandbur/tools").mkdir(parents=True)
    (folder / ".sandbur/tools/measure.py").write_text(TOOL.format(name="measure"))
    return folder


async def names(folder: Path, env: dict[str, str]) -> tuple[list[str], str]:
    found = FoundTools(folder, env)
    return [tool.spec.name for tool in await found.tools()], " ".join(found.notices())


async def test_tools_of_a_project_count_when_it_is_trusted_and_until_they_change(
    project: Path, env: dict[str, str]
) -> None:
    why = "these files, as they are now, are not trusted. The chat asks about them."
    assert await names(project, env) == ([], f"Ignored {project}/.sandbur/tools: {why}")
    found = project_tools(project)
    assert found is not None
    found.trust(env)
    assert await names(project, env) == (["measure"], "")
    (project / ".sandbur/tools/measure.py").write_text(TOOL.format(name="other"))
    assert (await names(project, env))[0] == []


async def test_a_file_that_is_added_is_not_trusted_with_the_others(
    project: Path, env: dict[str, str]
) -> None:
    found = project_tools(project)
    assert found is not None
    found.trust(env)
    (project / ".sandbur/tools/another.py").write_text("raise SystemExit")
    assert (await names(project, env))[0] == []


async def test_a_session_of_the_command_has_them_and_names_two_of_one_name(
    project: Path, env: dict[str, str]
) -> None:
    (project / ".sandbur/tools/twice.py").write_text(TOOL.format(name="measure"))
    found = project_tools(project)
    assert found is not None
    found.trust(env)
    runtime = Runtime.open({"model": "demo", "cwd": project}, env)
    try:
        with pytest.raises(ConfigError, match="two tools called measure"):
            await runtime.create()
        (project / ".sandbur/tools/twice.py").unlink()
    finally:
        await runtime.aclose()
    found = project_tools(project)
    assert found is not None
    found.trust(env)
    runtime = Runtime.open({"model": "demo", "cwd": project}, env)
    try:
        assert "measure" in (await runtime.create()).settings.own_tools
    finally:
        await runtime.aclose()


async def test_a_file_that_fails_is_named_and_the_others_count(project: Path, env: dict[str, str]) -> None:
    (project / ".sandbur/tools/bad.py").write_text("1 / 0")
    found = project_tools(project)
    assert found is not None
    found.trust(env)
    tools, said = await names(project, env)
    assert tools == ["measure"]
    assert "bad.py are left out: ZeroDivisionError" in said


def test_a_link_is_no_file_of_the_project(project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text("")
    (project / ".sandbur/tools/link.py").symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(ConfigError, match=r"link\.py"):
        project_tools(project)


def test_the_command_says_what_it_ignores(command: Command) -> None:
    (command.folder / ".sandbur/tools").mkdir(parents=True)
    (command.folder / ".sandbur/tools/x.py").write_text("raise SystemExit(9)")
    ended = command.run("-p", "hello", "-m", "demo")
    assert ended.code == 0
    assert "are not trusted" in ended.err


@pytest.fixture
def package(tmp_path: Path) -> Iterator[None]:
    """Put a package with entry points into the path, as an installation does."""
    site = tmp_path / "site"
    info = site / "measuring-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: measuring\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sandbur.tools]\nall = measuring:tools\nbad = measuring:number\n")
    (site / "measuring.py").write_text(TOOL.format(name="wide") + "\ntools = [wide]\nnumber = [3]\n")
    sys.path.insert(0, str(site))
    yield
    sys.path.remove(str(site))
    sys.modules.pop("measuring", None)


@pytest.mark.usefixtures("package")
async def test_installed_packages_bring_tools_and_what_is_none_is_named(
    tmp_path: Path, env: dict[str, str]
) -> None:
    tools, said = await names(tmp_path, env)
    assert tools == ["wide"]
    assert "measuring:number" in said
    assert "not a tool" in said
