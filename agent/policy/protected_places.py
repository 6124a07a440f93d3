"""Places whose files run commands or change the rules by themselves: no mode edits them unasked."""

from collections.abc import Sequence
from pathlib import Path
from posixpath import basename, dirname, join, lexists

from ...actions.workspace.secret_files import is_secret_file

_FOLDERS = frozenset((
    ".git", ".sandbur", ".ssh", ".gnupg", ".vscode", ".idea", ".husky", ".circleci", ".devcontainer",
    ".githooks", ".claude", ".codex", ".gemini", ".cursor", ".continue", ".windsurf", ".roo", ".cline",
    ".kiro", ".amazonq", ".opencode", ".qwen", ".aider", ".goose", ".zed", ".fleet", ".vs", ".buildkite",
    ".gitea", ".forgejo",
))  # fmt: skip
_PAIRS = frozenset((
    (".github", "workflows"), (".github", "actions"), (".config", "git"), (".config", "fish"),
    (".config", "systemd"), (".config", "autostart"), (".config", "sandbur"), (".config", "opencode"),
    (".config", "goose"), (".config", "zed"), (".config", "nvim"), ("library", "launchagents"),
))  # fmt: skip
_FILES = frozenset((
    ".gitconfig", ".gitmodules", ".gitlab-ci.yml", ".gitlab-ci.yaml", ".travis.yml", "azure-pipelines.yml",
    "jenkinsfile", "bitbucket-pipelines.yml", ".drone.yml", ".woodpecker.yml", ".cirrus.yml",
    "appveyor.yml", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".ripgreprc", ".mcp.json",
    ".claude.json", ".cursorrules", ".windsurfrules", ".clinerules", ".bashrc", ".bash_profile",
    ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin",
    ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", ".xprofile", ".xinitrc", ".xsession",
    ".vimrc", ".gvimrc", ".exrc", ".emacs", ".tmux.conf", ".screenrc", ".npmrc", ".yarnrc", ".yarnrc.yml",
    ".pypirc", ".netrc", ".editrc", ".curlrc", ".wgetrc", ".pythonrc", ".aider.conf.yml", "crontab",
))  # fmt: skip
_REPOSITORY_ENTRIES = ("HEAD", "objects", "refs")
_PART_OF_REPOSITORY = frozenset((*_REPOSITORY_ENTRIES, "config", "hooks"))


def why_protected(real: str, own: Sequence[str] = ()) -> str | None:
    """Say which protected place a resolved path is, or is in; `own` are folders of Sandbur's own."""
    for folder in own:
        if real == folder or real.startswith(folder.rstrip("/") + "/"):
            return f"{folder} belongs to Sandbur"
    parts = real.lower().split("/")
    for part, following in zip(parts, (*parts[1:], ""), strict=True):
        if part in _FOLDERS:
            return part
        if (part, following) in _PAIRS:
            return f"{part}/{following}"
    name = parts[-1]
    if name in _FILES or (name.startswith(".env") and is_secret_file(real)):
        return name
    if is_secret_file(real):
        return "a file of secrets"
    return _in_bare_repository(real)


def _in_bare_repository(real: str) -> str | None:
    """Tell of a folder that git takes for a repository, or that this path would make one."""
    if basename(real) in _PART_OF_REPOSITORY:
        folder = dirname(real)
        present = sum(lexists(join(folder, entry)) for entry in _REPOSITORY_ENTRIES)
        if present >= 2:
            return f"{folder} is a repository"
    folder = dirname(real)
    while folder not in ("/", ""):
        if looks_like_repository(folder):
            return f"{folder} is a repository"
        folder = dirname(folder)
    return None


def looks_like_repository(folder: str) -> bool:
    """Tell whether git would take the folder itself for a repository."""
    return lexists(join(folder, "HEAD")) and all(Path(folder, part).is_dir() for part in ("objects", "refs"))
