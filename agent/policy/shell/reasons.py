"""Describes why a command line needs approval: what it writes, deletes, downloads or runs."""

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from posixpath import basename, expanduser, join, normpath, realpath

from ....actions.tools.shell.language.programs.steps import UnclearWord, quote_word
from ....actions.tools.shell.read_only import NotProved, prove_words
from ..protected_places import why_always_asked, why_protected
from ..rules.path_rules import Workspace
from .far_options import is_far_reaching
from .guarded_places import find_use_of_key
from .own_commands import find_lifted_questions
from .seen_commands import SeenCommand, Sight

_KINDS: Mapping[str, str] = {
    "deletes": "rm rmdir unlink shred srm trash trash-put",
    "uses the network": (
        "curl wget ssh scp sftp rsync nc ncat netcat socat telnet ftp tftp ping dig nslookup host"
        " traceroute http https xh aria2c gh glab hub aws gcloud az kubectl helm psql mysql mariadb"
        " redis-cli mongosh rclone nmap"
    ),
    "writes files": (
        "touch mkdir cp mv ln tee dd install truncate patch tar unzip zip gzip gunzip bzip2 xz 7z split"
        " csplit"
        " mkfifo mknod sponge ed ex rename"
    ),
    "changes rights": "chmod chown chgrp setfacl chattr umask",
    "ends processes": "kill pkill killall skill xkill fuser",
    "installs software": (
        "apt apt-get dpkg yum dnf rpm apk pacman zypper brew snap flatpak pip pip3 pipx gem conda uv"
    ),
    "acts as another user": "sudo doas su pkexec runuser",
    "runs a program of its own": "awk gawk perl",
    "changes the system": (
        "systemctl service mount umount crontab at sysctl modprobe insmod swapoff launchctl docker podman"
    ),
}
_BY_NAME = {name: why for why, names in _KINDS.items() for name in names.split()}
_RUNS_REPOSITORY = re.compile(
    r"(?:make|gmake|ninja|cmake|npm|npx|pnpm|yarn|bun|deno|node|ts-node|tsx|jest|vitest|mocha|eslint|prettier|tsc"
    r"|cargo|go|mvn|gradle|gradlew|ant|sbt|dotnet|msbuild|bazel|rake|bundle|rails|rspec|tox|nox|pytest|py\.test"
    r"|mypy|pyright|ruff|black|flake8|pylint|coverage|poetry|pdm|hatch|pipenv|composer|phpunit|mix|stack|cabal|swift"
    r"|xcodebuild|just|task|python[\d.]*|pypy[\d.]*|ruby|php|lua|Rscript|java|bash|sh|zsh|dash|source|\.|cc|gcc|g\+\+"
    r"|clang|rustc|javac|sed)"
)
_GIVEN_CODE = re.compile(
    r"(?:bash|sh|zsh|dash|python[\d.]*|pypy[\d.]*) -\w*c|(?:node|ruby|lua|Rscript) -\w*e|php -r"
)
"""A program, and the option after which code follows."""
_GIT: Mapping[str, str] = {
    "uses the network": "push pull fetch clone ls-remote submodule remote send-email lfs",
    "changes the repository": (
        "add commit checkout switch restore reset merge rebase cherry-pick revert stash tag branch mv"
        " init am apply"
        " gc clean rm worktree notes config bisect reflog update-ref filter-branch prune sparse-checkout"
    ),
}
_BY_GIT = {name: why for why, names in _GIT.items() for name in names.split()}
_WRITES_ALL = frozenset((
    "tee", "touch", "mkdir", "truncate", "rm", "rmdir", "unlink", "chmod", "chown", "chgrp", "shred",
    "patch", "ed", "ex", "mkfifo", "setfacl", "chattr", "sponge",
))  # fmt: skip
_WRITES_LAST = frozenset(("cp", "ln", "install", "rsync", "scp"))
_IN_PLACE = {
    "sed": re.compile(r"-[A-Za-z]*i|--i"),
    "gsed": re.compile(r"-[A-Za-z]*i|--i"),
    "perl": re.compile(r"-[A-Za-z]*i"),
    "ruby": re.compile(r"-[A-Za-z]*i"),
}
"""Program -> the options that make the program write the files among its arguments."""
_MAX_MATCHES = 1000
_TAKES_FOLDER = frozenset(("cp", "ln", "install", "mv"))
_OUTPUT = frozenset(("-o", "-O", "--output", "--output-document", "--output-file", "-P", "-d", "-C"))
_INSTALLERS = frozenset(_KINDS["installs software"].split())
_LOADS = frozenset(("pip", "pip3", "pipx", "gem", "apt", "apt-get", "brew", "uv"))
_INSTALLS = frozenset((
    "install", "add", "ci", "i", "get", "update", "upgrade", "uninstall", "remove", "sync", "download",
    "wheel", "dist-upgrade", "full-upgrade", "reinstall", "purge", "autoremove", "-S", "-Syu", "-i", "tool",
    "lock", "inject", "refresh", "build-dep", "create",
))  # fmt: skip
_SHOWS_SETTINGS = frozenset(("--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"))
_CONTAINER_READS = (
    "ps", "images", "logs", "version", "info", "port", "top", "history", "container ls", "container logs",
    "image ls", "volume ls", "network ls", "compose ps", "compose logs", "compose images", "compose ls",
)  # fmt: skip
_SERVICE_READS = {
    "docker": _CONTAINER_READS,
    "podman": _CONTAINER_READS,
    "kubectl": ("get", "describe", "logs", "top", "version", "explain", "api-resources", "cluster-info"),
    "gh": (
        "pr view", "pr list", "pr diff", "pr checks", "pr status", "issue view", "issue list", "issue status",
        "run view", "run list", "release view", "release list", "repo view", "repo list", "workflow list",
    ),
}  # fmt: skip
_PLAIN_WORD = re.compile(r"[a-z][a-z-]*")


def purpose(sight: Sight, workspace: Workspace, doubt: str = "") -> str:
    """Describe the effects of the commands in a few words, or the part of them that is unknown."""
    reasons: dict[str, None] = {}
    for seen in sight.commands:
        for why in _purposes(seen, workspace):
            reasons[why] = None
    if sight.doubts:
        reasons[f"cannot be read off: {next(iter(sight.doubts))}"] = None
    unknown = f"may do more than read: {doubt}" if doubt else "may do more than read"
    return ", ".join(list(reasons)[:4]) or unknown


def _purposes(seen: SeenCommand, workspace: Workspace) -> Iterator[str]:
    targets = [one.target for one in seen.redirections if ">" in one.operator and one.target not in _NOWHERE]
    if targets and not targets[0].isdigit():
        yield f"writes files: {targets[0]}"
    if _is_proved(seen) or seen.words[1:] == ("--version",):
        return
    if find_reading_part(seen.words) is not None and not is_far_reaching(seen.words, ""):
        yield f"looks at a service: {seen.program}"
    elif seen.program == "git":
        yield from _of_git(seen.words)
    elif seen.program in _INSTALLERS:
        yield from _of_installer(seen)
    else:
        yield from _of_program(seen, workspace)


def _of_git(words: Sequence[str]) -> Iterator[str]:
    subcommand = next((word for word in words[1:] if not word.startswith("-")), "")
    if subcommand != "config" or not _SHOWS_SETTINGS.intersection(words):
        yield from filter(None, [_BY_GIT.get(subcommand)])


def _of_installer(seen: SeenCommand) -> Iterator[str]:
    """Yield reasons for a command that installs packages. Other effects of an installer are unknown."""
    if _INSTALLS.intersection(seen.words[1:4]):
        yield "installs software"
        yield from ["uses the network"] if seen.program in _LOADS else ()


def _of_program(seen: SeenCommand, workspace: Workspace) -> Iterator[str]:
    program = seen.program
    if program in ("find", "fd") and "-delete" in seen.words:
        yield "deletes"
    elif program == "sed" and any(word.startswith(("-i", "--in-place")) for word in seen.words):
        yield "writes files"
    elif program in _BY_NAME:
        yield _BY_NAME[program]
    elif program in ("npm", "yarn", "pnpm", "cargo", "go") and _INSTALLS.intersection(seen.words[1:2]):
        yield "installs software"
        yield "uses the network"
    elif any(_GIVEN_CODE.fullmatch(f"{program} {word}") for word in seen.words[1:]):
        yield "runs code that the command holds"
    elif _RUNS_REPOSITORY.fullmatch(program) or ("/" in seen.words[0] and seen.words[0] != program):
        yield (
            f"runs a program: {seen.words[0]}"
            if _is_outside(seen, workspace)
            else "runs a program of the repository"
        )


def _is_proved(seen: SeenCommand) -> bool:
    """Return whether this command is known to only read, so that it needs no reason."""
    if any(seen.computed):
        return False
    try:
        prove_words(list(map(quote_word, seen.words)))
    except (NotProved, UnclearWord):
        return False
    return True


_NOWHERE = ("/dev/null", "1", "2", "/dev/stderr", "/dev/stdout")


def _is_outside(seen: SeenCommand, workspace: Workspace) -> bool:
    return "/" in seen.words[0] and not workspace.contains(seen.words[0])


def find_writes(sight: Sight, cwd: str) -> Iterator[tuple[str, bool]]:
    """Yield each resolved path that the commands visibly write, and whether the shell expands the path."""
    here = cwd
    for seen in sight.commands:
        if seen.program in ("cd", "pushd") and len(seen.words) < 3:
            here = realpath(join(here, expanduser((*seen.words[1:], "~")[0])))
        for target in _targets(seen):
            yield _resolve(target, here), "$" in target or "*" in target
            for match in islice(glob.iglob(_make_absolute(target, here)), _MAX_MATCHES):  # noqa: PTH207 -- as text
                yield realpath(match), True


def _resolve(target: str, here: str) -> str:
    return realpath(normpath(_make_absolute(target, here)))


def _make_absolute(target: str, here: str) -> str:
    home = expanduser("~")
    target = re.sub(r"^(?:\$HOME|\$\{HOME\})(?=/|$)", lambda _: home, target)
    return join(here, expanduser(target))


def _targets(seen: SeenCommand) -> Iterator[str]:
    yield from (one.target for one in seen.redirections if ">" in one.operator and one.target not in _NOWHERE)
    program = seen.program
    operands = [word for word in seen.words[1:] if not word.startswith("-")]
    if program in _WRITES_ALL or (program in _IN_PLACE and any(map(_IN_PLACE[program].match, seen.words))):
        yield from operands
    elif program in _WRITES_LAST or program == "mv":
        yield from operands if program == "mv" else ()
        folders = list(_target_folders(seen.words)) if program in _TAKES_FOLDER else []
        yield from (
            _list_targets(operands, folders) if folders else _list_targets(operands[:-1], operands[-1:])
        )
    elif program == "dd":
        yield from (word[3:] for word in operands if word.startswith("of="))
    elif program in ("curl", "wget", "sort", "tar", "unzip", "gcc", "git"):
        pairs = zip(seen.words, seen.words[1:], strict=False)
        yield from (word for before, word in pairs if before in _OUTPUT and program != "git")
        yield from (word.partition("=")[2] for word in seen.words if word.startswith("--output"))
        yield from (
            word[2:] for word in seen.words if program != "git" and word.startswith(("-o", "-O", "-P"))
        )


def _target_folders(words: Sequence[str]) -> Iterator[str]:
    """Yield the folders of `-t` options, into which all named files go."""
    for word, following in pairwise((*words, "")):
        name, equals, value = word.partition("=")
        if len(name) > 2 and "--target-directory".startswith(name):
            yield value if equals else following
        elif found := re.match(r"(?s)-[A-Za-z]*?t(.*)", word):
            yield found[1] or following


def _list_targets(sources: list[str], last: list[str]) -> Iterator[str]:
    """Yield the target, and the path of each source inside it in case the target is a folder."""
    for target in last:
        yield target
        yield from (join(target, basename(source.rstrip("/"))) for source in sources)


def why_protected_write(sight: Sight, cwd: str, own: tuple[str, ...]) -> str | None:
    """Return the protected place that a command line visibly writes to, or None."""
    for real, _ in find_writes(sight, cwd):
        if why := why_protected(real, own):
            return f"writes to a protected place: {real} ({why})"
    return None


def why_always_asked_write(sight: Sight, cwd: str, own: tuple[str, ...]) -> str | None:
    """Return the change of a command line that needs approval even in yolo mode, or None."""
    if lifted := find_lifted_questions(sight):
        return f"changes which calls need a decision: {lifted}"
    for real, _ in find_writes(sight, cwd):
        if why := why_always_asked(real, own):
            return f"writes to a protected place: {real} ({why})"
    key = find_use_of_key(sight, cwd, own)
    return None if key is None else f"reads the key that seals the record: {key}"


def find_reading_part(words: Sequence[str]) -> str | None:
    """Return the words that show that a command only reads from a service, such as `docker ps`.

    Services are containers, clusters and code hosts. None: the command may do more, or uses no service.
    """
    known = _SERVICE_READS.get(words[0], ())
    for count in (1, 2):
        words_of_part = " ".join(words[1 : 1 + count])
        if words_of_part in known and all(map(_PLAIN_WORD.fullmatch, words[1 : 1 + count])):
            return f"{words[0]} {words_of_part}"
    return None
