"""Finds the files that the approval of a command line depends on: scripts that it runs or files that it uses.

This is a heuristic and proves nothing: every file in a word or a redirection counts, for any program and at
any depth in the text of nested shells. Files that programs find by themselves also count: makefiles, modules,
`conftest.py`. The contents of scripts are not examined.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from glob import escape, iglob
from itertools import islice, pairwise
from pathlib import Path
from posixpath import basename, dirname, expanduser, expandvars, isabs, join, normpath

from ....ports import FilesRun
from .git_hooks import find_hooks
from .parser import READS_A_FILE, ShellReader, SimpleCommand

_MOST_FILES = 100
_MOST_TOKENS = 1000
_MOST_FOLDERS = 8
_MOST_MATCHES = 200
_MOST_PATTERNS = 2
"""The most patterns in one path. Each of them searches all folders that the pattern before it matches."""
_MOST_ENTRIES = 5000
"""The most entries in the folders in which programs search for such files."""
_MAX_DEPTH = 3

_SYSTEM = re.compile(r"/(?:bin|dev|etc|lib\w*|nix|proc|run|sbin|sys|usr|System)(?:/|$)")
"""System folders. A process that can write there can run programs without an approval."""
_TOKEN = re.compile(r"[^\s\"'`;&|<>(){}\[\]$=,:!*?\\^#]+")
_TEXT = re.compile(r"[\s\"'`;&|<>()]")
"""Characters of a word that look like code for another program."""
_PATTERN = re.compile(r"[*?\[]")
_NO_PATH = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")
"""Characters that no system call accepts in a path."""
_UNKNOWN_FOLDER = re.compile(r"\$(?:\w+|\{\w+\}|\(\))/+(.+)", re.DOTALL)
_SHELL_OR_INTERPRETER = re.compile(
    r"\.|source|(?:ba|da|a|k|mk|z|c|tc|fi|rba)?sh|(?:python|pypy|perl|ruby|node|nodejs|php|lua|luajit|julia|guile)[\d.]*"
    r"|Rscript|bun|deno|tsx|ts-node|awk|[gmn]awk"
)
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_MODULE_OPTION = re.compile(r"-[a-zA-Z]*m(?P<module>[A-Za-z_][\w.]*)?")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_CODE = re.compile(
    r".*\.(?:sh|bash|zsh|fish|py|pyw|pl|pm|rb|js|mjs|cjs|ts|mts|cts|jsx|tsx|php|lua|r|jl|awk|sed|mk|ps1|tcl|gradle"
    r"|kts|groovy|patch|diff|sql)",
    re.IGNORECASE,
)
_ONLY_SHOWS = frozenset((
    "[", "basename", "cat", "chgrp", "chmod", "chown", "cmp", "cut", "date", "dirname", "du", "echo", "egrep",
    "false", "fgrep", "grep", "head", "kill", "ls", "md5sum", "mkdir", "nl", "printf", "pwd", "rm", "rmdir",
    "sha256sum", "sleep", "stat", "tac", "tail", "test", "touch", "tr", "true", "wc", "which",
))  # fmt: skip
"""Programs that only show files, or do not read them. No approval depends on these files."""
_HIDES_NO_PIPE = frozenset((
    READS_A_FILE, "it holds a comment", "it redirects to or from a file",
    "it starts something in the background",
))  # fmt: skip
"""Doubts of the parser with which pipes are still visible."""
_NOT_FILES = ("/dev/null", "1", "2", "/dev/stderr", "/dev/stdout")

_COMPOSE = (
    "compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "compose.override.yaml",
    "compose.override.yml", "docker-compose.override.yaml", "docker-compose.override.yml",
)  # fmt: skip
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_PACKAGE = ("package.json",)
_PYPROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
_FINDS: dict[str, Sequence[str]] = {
    "make": _MAKEFILES,
    "gmake": _MAKEFILES,
    "just": ("justfile", ".justfile", "Justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "npm": _PACKAGE,
    "npx": _PACKAGE,
    "pnpm": _PACKAGE,
    "yarn": (*_PACKAGE, ".yarnrc.yml"),
    "bun": _PACKAGE,
    "node": (*_PACKAGE, "index.js"),
    "jest": (*_PACKAGE, "jest.config.js", "jest.config.ts"),
    "vitest": (*_PACKAGE, "vitest.config.ts", "vite.config.ts", "vite.config.js"),
    "eslint": (*_PACKAGE, "eslint.config.js", "eslint.config.mjs", ".eslintrc.js"),
    "deno": ("deno.json", "deno.jsonc"),
    "tox": ("tox.ini", *_PYPROJECT),
    "nox": ("noxfile.py",),
    "pip": _PYPROJECT,
    "uv": _PYPROJECT,
    "poetry": _PYPROJECT,
    "hatch": _PYPROJECT,
    "pdm": _PYPROJECT,
    "pytest": ("conftest.py", "pytest.ini", "tox.ini", *_PYPROJECT),
    "py.test": ("conftest.py", "pytest.ini", "tox.ini", *_PYPROJECT),
    "invoke": ("tasks.py",),
    "fab": ("fabfile.py",),
    "scons": ("SConstruct",),
    "rake": ("Rakefile", "rakefile"),
    "bundle": ("Gemfile",),
    "cargo": ("Cargo.toml", "build.rs", ".cargo/config.toml"),
    "go": ("go.mod",),
    "mvn": ("pom.xml",),
    "gradle": ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
    "cmake": ("CMakeLists.txt",),
    "ninja": ("build.ninja",),
    "meson": ("meson.build",),
    "compose": _COMPOSE,
    "docker-compose": _COMPOSE,
    "docker": ("Dockerfile",),
    "podman": ("Containerfile", "Dockerfile"),
    "vagrant": ("Vagrantfile",),
    "terraform": ("main.tf",),
    "pre-commit": (".pre-commit-config.yaml",),
    "composer": ("composer.json",),
    "mix": ("mix.exs",),
    "direnv": (".envrc",),
}
"""Files that programs find in their working folder or in named folders. A program reads the first that
exists.
"""
_ANYWHERE_BELOW = {"pytest": "conftest.py", "py.test": "conftest.py"}
_RUNS_FOLDERS = ("__main__.py", "index.js", "package.json")
"""The file of a named folder that an interpreter runs."""
_PASSED_OVER = frozenset(("node_modules", "__pycache__", "venv"))


def files_named(command: str, folder: Path, workspace: Path) -> FilesRun:
    """Return the files as absolute paths. Links are not followed, and some files may not exist.

    The command runs in `folder`. System folders are left out, unless the workspace is in one.
    """
    net = _Net(str(folder), os.path.realpath(workspace))
    net.take(_words(command))
    net.take_hooks(_list_git_commands(command, 0))
    return FilesRun(tuple(net.found), net.is_complete)


def _list_git_commands(text: str, depth: int) -> Iterator[Sequence[str]]:
    """Yield the words of the commands of git in a text, and in the texts among its words."""
    if "git" not in text:
        return
    reader = ShellReader(text)
    reader.read()
    for command in reader.commands:
        if any(basename(word) == "git" for word in command.words):
            yield command.words
        for word in command.words if depth < _MAX_DEPTH else ():
            if _TEXT.search(word) is not None:
                yield from _list_git_commands(word, depth + 1)


def _words(command: str) -> Iterator[str]:
    """Yield the words and redirections of all commands, except those that only show files."""
    reader = ShellReader(command)
    reader.read()
    yield from (value for value in reader.variables.values() if value)
    is_seen = _HIDES_NO_PIPE.issuperset(reader.doubts)
    for pipeline in _pipelines(reader.commands):
        if not (is_seen and all(map(_only_shows, pipeline))):
            yield from (word for command in pipeline for word in _words_of(command))


def _pipelines(commands: Iterable[SimpleCommand]) -> Iterator[list[SimpleCommand]]:
    pipeline: list[SimpleCommand] = []
    for command in commands:
        if pipeline and command.joint not in ("|", "|&"):
            yield pipeline
            pipeline = []
        pipeline.append(command)
    if pipeline:
        yield pipeline


def _only_shows(command: SimpleCommand) -> bool:
    return command.words[0] in _ONLY_SHOWS and all(
        ">" not in one.operator or one.target in _NOT_FILES for one in command.redirections
    )


def _words_of(command: SimpleCommand) -> Iterator[str]:
    yield from command.words
    for one in command.redirections:
        # The output file of a command is not one of its inputs.
        if ">" not in one.operator or one.operator == "<>":
            yield one.text or one.target


class _Net:
    """Collects the files that words may name."""

    def __init__(self, folder: str, workspace: str) -> None:
        self._workspace = workspace
        self._folder = folder
        self._home = expanduser("~")
        self._folders = [folder, *self._program_folders()]
        self._given: list[str] = []
        """The folders that words name."""
        self._entries = 0
        """The number of entries that were searched so far."""
        self.found: dict[str, None] = {}
        self.is_complete = True

    def take(self, words: Iterable[str]) -> None:
        tokens = self._tokens(words)
        for token in tokens:
            self._add_folder(token)
        for token, following in pairwise((*tokens, "")):
            self._add_named(token, is_word=tokens.get(token, False))
            if _SHELL_OR_INTERPRETER.fullmatch(basename(token)):
                self._add_script(list(tokens), token)
            for name in dict.fromkeys((basename(token), basename(token).rstrip("0123456789."))):
                self._add_found(name)
            option = _MODULE_OPTION.fullmatch(token)
            if option is not None and any(_PYTHON.fullmatch(basename(one)) for one in tokens):
                self._add_module(option["module"] or following)

    def take_hooks(self, commands: Iterable[Sequence[str]]) -> None:
        """Add the hooks that commands of git may run in the folder of the command, or in a named one."""
        for words in commands:
            for folder in self._folders:
                for hook in find_hooks(words, folder):
                    self._add(hook)

    def _tokens(self, words: Iterable[str]) -> dict[str, bool]:
        """Return possible file names. The value says whether the name is a whole word."""
        tokens: dict[str, bool] = {}
        for word in words:
            for token, is_word in self._spellings(word, 0):
                tokens[token] = tokens.get(token, False) or is_word
                if len(tokens) >= _MOST_TOKENS:
                    self.is_complete = False
                    return tokens
        return tokens

    def _spellings(self, word: str, depth: int) -> Iterator[tuple[str, bool]]:
        """Yield a word, and all parts of it that may be file names."""
        word = _NO_PATH.sub("", word)
        yield from ((one, True) for one in _list_variants(word, self._folder))
        if _PATTERN.search(word) is not None:
            yield from ((one, False) for one in self._list_matches(word))
        if _TEXT.search(word) is not None and depth < _MAX_DEPTH:
            reader = ShellReader(word)
            reader.read()
            for command in reader.commands:
                for inner in _words_of(command):
                    if inner != word:
                        yield from self._spellings(inner, depth + 1)
        for token in _TOKEN.findall(word):
            yield from ((one, False) for one in _list_variants(token, self._folder))

    def _list_matches(self, pattern: str) -> Iterator[str]:
        """Yield the existing files that match a file name pattern."""
        if sum(_PATTERN.search(part) is not None for part in pattern.split("/")) > _MOST_PATTERNS:
            self.is_complete = False
            return
        within = expanduser(pattern) if isabs(expanduser(pattern)) else join(escape(self._folder), pattern)
        found = list(islice(iglob(within), _MOST_MATCHES + 1))  # noqa: PTH207 -- as text
        self.is_complete &= len(found) <= _MOST_MATCHES
        yield from found[:_MOST_MATCHES]

    def _program_folders(self) -> Iterator[str]:
        """Yield the folders of the workspace in which the shell searches programs."""
        for folder in os.environ.get("PATH", "").split(":"):
            if isabs(folder) and os.path.realpath(folder).startswith(f"{self._workspace}/"):
                yield folder

    def _list_places(self, token: str) -> Iterator[str]:
        """Yield the paths that a token may mean."""
        path = expanduser(token)
        for place in [path] if isabs(path) else [join(folder, path) for folder in self._folders]:
            if not self._is_of_system(normpath(place)):
                yield place

    def _is_of_system(self, place: str) -> bool:
        return _SYSTEM.match(place) is not None and not place.startswith(f"{self._workspace.rstrip('/')}/")

    def _add_folder(self, token: str) -> None:
        for place in list(self._list_places(token)):
            if not os.path.isdir(place) or normpath(place) in ("/", self._home):  # noqa: PTH112 -- as text
                continue
            self._given.append(place)
            if any(normpath(place) == normpath(known) for known in self._folders):
                continue
            if len(self._folders) < _MOST_FOLDERS:
                self._folders.append(place)
            else:
                self.is_complete = False

    def _add_named(self, token: str, is_word: bool) -> None:
        for place in self._list_places(token):
            if os.path.isfile(place):  # noqa: PTH113 -- as text
                self._add(place)
        # A missing file that the command would run counts, too. If it is created later, the approval ends.
        if is_word and (_CODE.fullmatch(token) or token.startswith(("./", "../"))):
            self._add_absent(expanduser(token))

    def _add_script(self, tokens: Sequence[str], program: str) -> None:
        """Add the first operand of an interpreter, and the file that the interpreter runs in a named
        folder.
        """
        after = tokens[tokens.index(program) + 1 :]
        script = next((token for token in after if not token.startswith("-")), None)
        if script is not None:
            self._add_absent(expanduser(script))
        for folder in self._given:
            self._add_existing(join(folder, name) for name in _RUNS_FOLDERS)

    def _add_absent(self, path: str) -> None:
        place = join(self._folder, path)
        is_address = "://" in path or path.startswith("//")
        if (
            is_address
            or _TEXT.search(path) is not None
            or "\0" in place
            or self._is_of_system(normpath(place))
        ):
            return
        if not os.path.isdir(place):  # noqa: PTH112 -- as text
            self._add(place)

    def _add_found(self, program: str) -> None:
        names = _FINDS.get(program, ())
        for name in names:
            self._add(join(self._folder, name))
            self._add_existing(join(folder, name) for folder in self._folders_and_above())
        if program in _ANYWHERE_BELOW:
            for folder in self._given or [self._folder]:
                self._add_below(folder, _ANYWHERE_BELOW[program])

    def _folders_and_above(self) -> Iterator[str]:
        """Yield the folders, and the folders above them in the workspace, where programs also search."""
        for folder in self._folders:
            yield folder
            above = dirname(normpath(folder))
            while (above + "/").startswith(self._workspace.rstrip("/") + "/"):
                yield above
                above = dirname(above)

    def _add_below(self, folder: str, name: str) -> None:
        waiting = [folder]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        self._entries += 1
                        if self._entries > _MOST_ENTRIES:
                            self.is_complete = False
                            return
                        if entry.name == name:
                            self._add(entry.path)
                        elif _is_searched(entry):
                            waiting.append(entry.path)
            except OSError:
                continue

    def _add_module(self, module: str) -> None:
        """Add the files that `python -m` may run. A module of the workspace hides a module of the system."""
        if _MODULE.fullmatch(module) is None:
            return
        path = module.replace(".", "/")
        for name in (f"{path}.py", f"{path}/__main__.py"):
            self._add_absent(name)
        above = [join(*path.split("/")[:count], "__init__.py") for count in range(1, module.count(".") + 2)]
        for name in (f"{path}.py", f"{path}/__main__.py", *above):
            self._add_existing(join(folder, name) for folder in self._folders)

    def _add_existing(self, places: Iterable[str]) -> None:
        for place in places:
            if os.path.isfile(place):  # noqa: PTH113 -- as text
                self._add(place)

    def _add(self, place: str) -> None:
        place = normpath(place) if ".." not in place.split("/") else place
        if place in self.found:
            return
        if len(self.found) >= _MOST_FILES:
            self.is_complete = False
        else:
            self.found[place] = None


def _list_variants(word: str, folder: str) -> Iterator[str]:
    """Yield the variants of one word: with its variables expanded, and without an attached option."""
    if not word or len(word) > 4096:
        return
    if "$" in word:
        word = re.sub(r"\$(?:PWD\b|\{PWD\}|\(\)(?=/))", lambda _: folder, word)
        if (tail := _UNKNOWN_FOLDER.fullmatch(word)) is not None:
            yield tail[1]
        word = expandvars(word)
    yield word
    if word[0] == "@":
        yield word[1:]
    elif word[0] == "-" and word[1:2] not in ("", "-") and len(word) > 2:
        yield word[2:]


def _is_searched(entry: os.DirEntry[str]) -> bool:
    is_usual = not entry.name.startswith(".") and entry.name not in _PASSED_OVER
    return is_usual and entry.is_dir(follow_symlinks=False)
