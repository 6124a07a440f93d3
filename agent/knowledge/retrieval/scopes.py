"""The scopes of knowledge bases: one project, or all projects of a person."""

from pathlib import Path

from ...config.paths import repository_root

USER_SCOPE = ""
"""The scope of bases for all projects."""
PROJECT_BASE = "project"
"""The name of the base that sessions of a project search without a setting."""


def find_project_scope(cwd: Path) -> str:
    """Return the scope of the project that a folder belongs to: the root of its repository, or the folder."""
    return str((repository_root(cwd) or cwd).resolve())


def list_scopes(cwd: Path) -> tuple[str, str]:
    """Return the scopes in which a session finds knowledge bases, in the order of the search."""
    return find_project_scope(cwd), USER_SCOPE
