"""Lists the files that run code later, or that change what a program or an agent does later.

This is the only list of such places: the gate asks before each change, and a sandbox makes them read-only. It
uses only the standard library, because supervisors of commands import it, too.
"""

from collections.abc import Sequence

from .secret_files import is_secret_file

PROTECTED_FOLDERS = (
    # versions, keys and our own settings
    ".git", ".sandbur", ".ssh", ".gnupg",
    # editors
    ".vscode", ".idea", ".zed", ".fleet", ".vs", ".devcontainer", ".vim", ".nvim", ".emacs.d",
    # hooks and CI
    ".husky", ".githooks", ".circleci", ".buildkite", ".gitea", ".forgejo", ".woodpecker", ".semaphore",
    # agents
    ".claude", ".codex", ".gemini", ".cursor", ".continue", ".windsurf", ".roo", ".cline", ".clinerules",
    ".kiro", ".amazonq", ".opencode", ".qwen", ".aider", ".goose", ".agents", ".agent", ".junie", ".augment",
    ".trae", ".factory", ".openhands", ".crush", ".kilocode", ".zencoder", ".copilot", ".grok", ".kimi",
    # packages: code in these folders runs at the next start of a program
    ".venv", ".mvn",
)  # fmt: skip
"""Folders that are protected at any path, with everything in them."""

PROTECTED_PATHS = (
    ".github/workflows", ".github/actions", ".github/hooks", ".github/copilot-instructions.md",
    ".github/instructions", ".github/prompts", ".github/chatmodes", ".github/agents", ".github/skills",
    ".hg/hgrc", ".hg/hgrc-not-shared", ".jj/repo/config.toml", ".cargo/config", ".cargo/config.toml",
    "node_modules/.bin", ".bundle/config", ".yarn/releases", ".yarn/plugins", "gradle/wrapper",
    ".config/git", ".config/fish", ".config/systemd", ".config/autostart", ".config/sandbur",
    ".config/opencode", ".config/goose", ".config/crush", ".config/amp", ".config/zed", ".config/nvim",
    ".config/vim", ".config/pip", ".config/environment.d", ".config/mise", ".config/direnv",
    ".config/plasma-workspace/env", ".config/Code/User", ".config/Cursor/User", ".local/bin",
    "Library/LaunchAgents",
)  # fmt: skip
"""Files and folders that are recognized by the end of their path."""

PROTECTED_FILES = (
    # git, and tools that run programs for it
    ".gitconfig", ".gitmodules", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", "lefthook.toml",
    ".huskyrc", ".lintstagedrc", ".overcommit.yml", ".hgrc",
    # CI
    ".gitlab-ci.yml", ".gitlab-ci.yaml", ".travis.yml", "azure-pipelines.yml", "jenkinsfile",
    "bitbucket-pipelines.yml", ".drone.yml", ".woodpecker.yml", ".cirrus.yml", "appveyor.yml",
    # agents
    "AGENTS.md", "AGENT.md", "AGENTS.override.md", "AGENTS.local.md", "CLAUDE.md", "CLAUDE.local.md",
    "GEMINI.md", "QWEN.md", "CRUSH.md", "WARP.md", "KIMI.md", "SKILL.md", ".mcp.json", "mcp.json",
    ".claude.json", ".cursorrules", ".windsurfrules", ".roorules", ".rules", ".goosehints",
    ".augment-guidelines", ".openhands_instructions", ".aider.conf.yml", "opencode.json", "opencode.jsonc",
    "crush.json", ".crush.json",
    # shells and their tools
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc",
    ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc",
    ".editrc", ".xprofile", ".xinitrc", ".xsession", ".envrc", ".direnvrc", ".autoenv.zsh", "mise.toml",
    ".mise.toml", "mise.local.toml", "crontab", ".tmux.conf", ".screenrc", ".ripgreprc", ".curlrc", ".wgetrc",
    # editors and interpreters
    ".vimrc", ".gvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".emacs", ".dir-locals.el", ".nanorc", ".pythonrc",
    ".pythonstartup", ".pdbrc", "sitecustomize.py", "usercustomize.py", ".rprofile", ".irbrc", ".pryrc",
    ".gdbinit", ".lldbinit", ".psqlrc", ".sqliterc", ".ghci", ".octaverc", ".perldb",
    # packages
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.mjs", ".pnp.cjs", ".pnp.loader.mjs",
    ".pypirc", ".netrc", ".bazelrc", ".buckconfig",
)  # fmt: skip
"""File names that are protected in any folder. Files that contain secrets are protected, too."""

INSTALLED = (".venv", "node_modules/.bin")
"""Folders that package installers write."""

_FOLDERS = frozenset(folder.lower() for folder in PROTECTED_FOLDERS)
_PATHS = tuple(tuple(path.lower().split("/")) for path in PROTECTED_PATHS)
_FILES = frozenset(name.lower() for name in PROTECTED_FILES)
_PATHS_BY_END = {
    end: tuple(path for path in _PATHS if path[-1] == end) for end in {path[-1] for path in _PATHS}
}


def find_protected_part(path: str) -> str | None:
    """Return the part of an absolute path that makes it a protected place, or None if it is not protected.

    Upper and lower case are equal, as on some file systems.
    """
    parts = path.lower().split("/")
    for at, part in enumerate(parts):
        if part in _FOLDERS:
            return part
        for ending in _PATHS_BY_END.get(part, ()):
            if tuple(parts[at + 1 - len(ending) : at + 1]) == ending:
                return "/".join(ending)
    name = parts[-1]
    if name in _FILES or (name.startswith(".env") and is_secret_file(path)):
        return name
    return "a file of secrets" if is_secret_file(path) else None


def is_protected_entry(folder: Sequence[str], name: str) -> bool:
    """Return whether an entry of a folder is protected; `folder` and `name` are in lower case."""
    if name in _FOLDERS or name in _FILES:
        return True
    endings = _PATHS_BY_END.get(name)
    return endings is not None and any((*folder, name)[-len(ending) :] == ending for ending in endings)


def is_writable_by_approval(path: str) -> bool:
    """Return whether a sandboxed command may write a protected place after a person or a rule approved it."""
    lowered = path.lower()
    name = lowered.rpartition("/")[2]
    if lowered.endswith(tuple(f"/{place}" for place in INSTALLED)):
        return True
    return is_secret_file(path) and name not in _FOLDERS and name not in _FILES and name not in _PATHS_BY_END
