"""Detects destructive commands, even inside of wrappers. They need approval in every mode."""

import glob
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from posixpath import basename, expanduser, join, normpath, realpath

from ....state.lazy_dataclass import dataclass
from ..protected_places import looks_like_repository
from .chained_commands import LoadedFiles, add_arguments, erases_unknown_trees, names_given
from .seen_commands import GIVEN_PROGRAM, MADE_TEXT, SeenCommand, Sight, look

_MAX_MATCHES = 1000
_DISK = re.compile(
    r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|r?disk|mapper/|md|dm-|loop|disk/|zd|nbd|pmem|mem$|kmem|port$|sr\d|mtd).*"
    r"|/proc/sysrq-trigger"
)
_SYSTEM_FILE = re.compile(
    r"/etc/(?:passwd|shadow|group|gshadow|sudoers|fstab|nftables\.conf|default/grub|ld\.so\.preload|iptables/.*"
    r"|sudoers\.d/.*|grub\.d/.*)-?|/boot/.*"
)
_WHOLE_FOLDERS = frozenset((
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media", "/mnt", "/opt",
    "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local",
    "/usr/sbin", "/usr/share", "/var", "/var/lib", "/Applications", "/Library", "/System", "/Users",
    "/Volumes",
))  # fmt: skip
# The expression matches a name only at the start of a word. Otherwise a long word takes quadratic time.
_BOMB = re.compile(
    r"(?<![^\s(){};&|<>])([^\s(){};&|<>]++)\s*\(\s*\)\s*\{([^{}]*)\}"
    r"|function\s+(\S+)\s*(?:\(\s*\))?\s*\{([^{}]*)\}"
)
_FORKS = re.compile(
    r"\bfork\s*(?:\(\s*\))?\s*(?:while|until)\b|while\s*[(:]?\s*(?:1|True|true)?\s*[):{]*\s*(?:os\.)?fork\b"
)
_ERASING_CALL = re.compile(
    r"(?:rmtree|remove_tree|rm_rf|rm_r|rmSync|remove_entry)\b[^;\n]{0,80}?"
    r"(?:[\"'](?:/|~/?|/home|/etc|/usr|/var|\.git/?)[\"']|expanduser|homedir|Path\.home|ENV\[.HOME|environ)"
)
_FETCHERS = frozenset((
    "curl", "wget", "fetch", "http", "https", "xh", "aria2c", "lynx", "w3m", "nc", "ncat", "netcat",
    "socat", "ftp", "tftp", "GET",
))  # fmt: skip
_DANGEROUS_GROUPS: Mapping[str, str] = {
    "formats or wipes a disk": (
        "mkfs mke2fs mkswap wipefs blkdiscard luksformat newfs sgdisk gdisk cfdisk fdisk sfdisk parted"
        " lvremove vgremove pvremove mkdosfs mkntfs"
    ),
    "changes the firewall": (
        "iptables ip6tables iptables-restore ip6tables-restore iptables-legacy iptables-nft nft ufw"
        " firewall-cmd pfctl ipset ebtables arptables"
    ),
    "changes users or what they may do": (
        "useradd userdel usermod adduser deluser addgroup delgroup groupadd groupdel groupmod passwd chpasswd"
        " visudo vipw vigr chsh chage gpasswd newusers dscl pw"
    ),
    "changes how the machine boots": (
        "grub-install grub2-install update-grub grub-mkconfig grub2-mkconfig grub-set-default efibootmgr"
        " bootctl update-initramfs mkinitcpio dracut kexec grubby bless nvram lilo extlinux"
    ),
    "stops the machine": "shutdown reboot halt poweroff telinit init",
    "kills everything": "killall5",
}
_BY_NAME = {name: why for why, names in _DANGEROUS_GROUPS.items() for name in names.split()}
_ONLY_LOOKS = frozenset((
    "-L", "-S", "--list", "--list-rules", "-l", "list", "status", "--state", "--list-all", "--version",
    "-V", "--help", "-h", "-v", "-n", "-nL", "-nvL", "-vnL", "-Ln", "-Lnv", "-s", "--status", "-i", "print",
    "-p", "--print", "-sr", "--get-default-zone", "--list-all-zones", "show", "is-installed", "--wtmp-only",
    "-w", "--dry-run", "--no-act", "-lah", "-read", "-search",
))  # fmt: skip
_CHANGES = frozenset((
    "-A", "-D", "-I", "-F", "-X", "-P", "-Z", "-N", "-R", "-E", "--flush", "--append", "--delete",
    "--insert", "--policy", "flush", "delete", "add", "insert", "reset", "disable", "enable", "mklabel",
    "rm", "mkpart", "-d", "-f", "--zap-all", "-Z", "-create", "-o", "-a", "-c", "--delete-chain",
))  # fmt: skip
_DELETERS = frozenset(("rm", "shred", "srm", "rmdir", "unlink", "trash", "trash-put", "gio", "grm"))
_RIGHTS = frozenset(("chmod", "chown", "chgrp", "setfacl", "chattr", "chcon"))
_POWER = frozenset(("poweroff", "reboot", "halt", "kexec", "rescue", "emergency", "isolate", "soft-reboot"))
_NARROWS = frozenset((
    "-name", "-iname", "-path", "-ipath", "-regex", "-newer", "-mtime", "-atime", "-size", "-empty",
    "-mmin", "-user", "-wholename",
))  # fmt: skip
_SIGNAL = re.compile(r"-(?:\d+|[A-Z][A-Z0-9]*|SIG[A-Z0-9]+)")


@dataclass(frozen=True, slots=True)
class _Place:
    """The folder in which a command would run, and the folders of the workspace."""

    cwd: str
    roots: tuple[str, ...]

    def real(self, target: str) -> str:
        home = expanduser("~")
        target = re.sub(r"^(?:\$HOME|\$\{HOME\})(?=/|$)", lambda _: home, target)
        target = re.sub(r"^(?:\$PWD|\$\{PWD\})(?=/|$)", lambda _: self.cwd, target)
        return realpath(join(self.cwd, expanduser(target)))


def find_destruction(
    text: str, cwd: str, roots: tuple[str, ...] = (), sight: Sight | None = None
) -> str | None:
    """Return what a shell text would destroy irreversibly, or None.

    `cwd` is the folder where the text would run; `roots` are the folders of the workspace.
    """
    plain = _with_plain_variables(text)
    sight = sight if sight is not None and plain == text else look(plain)
    place = _Place(cwd, roots or (cwd,))
    if _is_fork_bomb(text):
        return "starts processes without end"
    readings = (look(one) for one in islice(_with_values(plain), _MAX_READINGS))
    return _destroys(text, sight, place) or next(
        filter(None, (_destroys(text, reading, place) for reading in readings)), None
    )


def _destroys(text: str, sight: Sight, place: _Place) -> str | None:
    if MADE_TEXT in sight.doubts and any(seen.program in _FETCHERS for seen in sight.commands):
        return "runs what it loads from the network in a shell"
    if _ERASING_CALL.search(text) and (GIVEN_PROGRAM in sight.doubts or MADE_TEXT in sight.doubts):
        return "erases a whole tree from a program of its own"
    # Only a later command of the same line can run a file that the line downloads.
    loaded = LoadedFiles(lambda seen: seen.program in _FETCHERS) if len(sight.commands) > 1 else None
    for at, seen in enumerate(sight.commands):
        if seen.program in ("cd", "pushd") and len(seen.words) <= 2:
            place = _Place(place.real((*seen.words, "~")[1]), place.roots)
        if loaded is not None and loaded.runs(seen, place.cwd):
            return "runs what it loads from the network"
        if why := _judge_command(seen, place) or _judge_piped_names(sight.commands, at, place):
            return why
    return None


_VARIABLE_WITH_MORE = re.compile(r"\$\{(HOME|PWD)(?:%%?/?|:?[?=-][^{}]*|/[^{}]*)\}")
_PARENT = re.compile(r"\$\{(HOME|PWD)%/\*\}")
_FOLDER_NOW = re.compile(r"\$\(\s*pwd(?:\s+-[LP])?\s*\)|`\s*pwd\s*`|(?<![\w/~])~\+(?=[/\s\"']|$)")
_HOME_NOW = re.compile(r"\$\(\s*echo\s+(?:~|\"?\$HOME\"?)\s*\)|`\s*echo\s+(?:~|\$HOME)\s*`")


def _with_plain_variables(text: str) -> str:
    """Replace other spellings of the home and working folder by `$HOME` and `$PWD`."""
    text = _PARENT.sub(r"$\1/..", text)
    text = _VARIABLE_WITH_MORE.sub(r"${\1}", text)
    return _HOME_NOW.sub("${HOME}", _FOLDER_NOW.sub("${PWD}", text))


_LOOP = re.compile(r"\bfor\s+(\w+)\s+in\s+([^;\n]*)[;\n]", re.ASCII)
_DEFAULT = re.compile(r"\$\{\w+:?[-=]([^{}]*)\}", re.ASCII)
_WHOLE_TREES = re.compile(r"\brm\s+(?:-\w+\s+)*-\w*[rR]|\brm\s.*--rec")
_MAX_READINGS = 40
_UNKNOWN_TREES = "erases trees whose names the command does not show"


def _with_values(text: str) -> Iterator[str]:
    """Yield the text with possible values of its variables: the words of a loop, and default values."""
    if _DEFAULT.search(text):
        yield _DEFAULT.sub(lambda found: found[1], text)
    for found in _LOOP.finditer(text):
        variable = re.compile(rf"\$(?:{found[1]}\b|\{{{found[1]}\}})", re.ASCII)
        for word in dict.fromkeys(found[2].split()):
            # Only folders above the workspace and well-known folders need a question.
            if re.search(r"[/~$.]", word) or ("*" in word and _WHOLE_TREES.search(text)):
                yield variable.sub(lambda _, value=word: value.strip("\"'"), text)


def _judge_piped_names(commands: Sequence[SeenCommand], at: int, place: _Place) -> str | None:
    """Judge commands that delete files whose names come through a pipe; return the danger or None."""
    seen = commands[at]
    is_fed = seen.fed or any(word.startswith("$") or "{}" in word for word in seen.words[1:])
    if seen.program == "parallel" and erases_unknown_trees(commands, at):
        return _UNKNOWN_TREES
    if seen.program not in _DELETERS or not is_fed:
        return None
    names, is_narrow = names_given(commands, at)
    if not names:
        return _UNKNOWN_TREES if erases_unknown_trees(commands, at) else None
    source = next((one for one in reversed(commands[:at]) if one.program == "find"), None)
    is_narrow |= source is not None and any(word in _NARROWS for word in source.words)
    targets = _operands(add_arguments(seen, names))
    if is_narrow:
        targets = [one for one in targets if place.real(one) in _WHOLE_FOLDERS or place.real(one) == _home()]
    return _erases(targets, place)


def _is_fork_bomb(text: str) -> bool:
    for found in _BOMB.finditer(text[:20_000]):
        name, body = found[1] or found[3], found[2] or found[4]
        calls = re.findall(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", body)
        if calls and ("|" in body or re.search(r"(?<!&)&(?!&)", body)):
            return True
    return _FORKS.search(text[:20_000]) is not None


def _judge_command(seen: SeenCommand, place: _Place) -> str | None:
    for redirection in seen.redirections:
        if ">" in redirection.operator and (why := _overwrites(redirection.target, place)):
            return why
    judge = _BY_PROGRAM.get(seen.program)
    if judge is not None:
        return judge(seen, place)
    if seen.program in _DELETERS:
        return _erases(_operands(seen), place)
    if seen.program in _RIGHTS:
        return _changes_rights(seen, place)
    return _judge_dangerous_program(seen)


def _judge_dangerous_program(seen: SeenCommand) -> str | None:
    """Judge programs that are dangerous unless they only read; return the danger or None."""
    why = _BY_NAME.get(seen.program.partition(".")[0])
    if why is None:
        return None
    rest = set(seen.words[1:])
    if seen.program == "passwd" and rest <= {"-S", "--status"} and rest:
        return None
    is_always = seen.program.startswith("mkfs") or "machine" in why.rpartition(" ")[2]
    if is_always or not rest & _ONLY_LOOKS or rest & _CHANGES:
        return why
    return None


def _operands(seen: SeenCommand) -> list[str]:
    words = list(seen.words[1:])
    ends = words.index("--") if "--" in words else len(words)
    return [word for word in words[:ends] if not word.startswith("-")] + words[ends + 1 :]


def _overwrites(target: str, place: _Place) -> str | None:
    real = place.real(target)
    for path in {real, normpath(join(place.cwd, expanduser(target)))}:
        if _DISK.fullmatch(path):
            return f"writes over a disk: {path}"
        if _SYSTEM_FILE.fullmatch(path):
            return f"changes users, rights or boot: {path}"
    return None


def _erases(targets: list[str], place: _Place) -> str | None:
    for target in islice(_expand_braces(targets), _MOST_TARGETS):
        if re.fullmatch(r"\$(?:\w+|\{\w+\})/[*.]*", target) and not re.match(r"\$\{?(?:HOME|PWD)\b", target):
            return f"erases everything if {target.partition('/')[0]} is empty"
        for path, is_whole in _expand_target(target, place):
            if why := _judge_erasure(path, place, is_whole):
                return why
    return None


_BRACES = re.compile(r"\{([^{},]*,[^{}]*)\}")
_MOST_TARGETS = 1000


def _expand_braces(targets: Iterable[str]) -> Iterator[str]:
    """Yield the targets with their braces expanded."""
    waiting = list(targets)[::-1]
    while waiting:
        target = waiting.pop()
        found = _BRACES.search(target)
        if found is None:
            yield target
        else:
            before, after = target[: found.start()], target[found.end() :]
            waiting += [f"{before}{one}{after}" for one in reversed(found[1].split(","))]


def _home() -> str:
    return realpath(expanduser("~"))


def _expand_target(target: str, place: _Place) -> Iterator[tuple[str, bool]]:
    """Yield the target, and for `folder/*` the folder; each with whether all of it is deleted."""
    yield place.real(target), True
    folder, _, last = target.rpartition("/")
    if "*" in last and re.fullmatch(r"[.*?\[\]!{},]+", last):
        yield place.real(folder or ("/" if target.startswith("/") else ".")), True
    elif re.search(r"[*?\[]", last):
        yield from ((path, True) for path in islice(glob.iglob(place.real(target)), _MAX_MATCHES))  # noqa: PTH207


def _judge_erasure(path: str, place: _Place, is_whole: bool = True) -> str | None:
    home = _home()
    if path in _WHOLE_FOLDERS or _DISK.fullmatch(path):
        return f"erases {path}"
    if path == home or home.startswith(path.rstrip("/") + "/"):
        return f"erases the home folder: {path}"
    parts = path.split("/")
    if ".git" in parts:
        after = parts[parts.index(".git") + 1 :]
        if not after or after[0] in ("objects", "refs", "logs", "HEAD", "packed-refs", "*"):
            return f"erases the repository's history: {path}"
    if looks_like_repository(path):
        return f"erases the repository's history: {path}"
    if is_whole and any(root == path or root.startswith(path.rstrip("/") + "/") for root in place.roots):
        return f"erases the whole workspace: {path}"
    return None


def _changes_rights(seen: SeenCommand, place: _Place) -> str | None:
    is_recursive = any(re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*|--rec.*", word) for word in seen.words[1:])
    targets = _operands(seen)
    for target in targets:
        for path, _ in _expand_target(target, place):
            if is_recursive and (path in _WHOLE_FOLDERS or path == _home()):
                return f"changes the rights of everything in {path}"
            if _SYSTEM_FILE.fullmatch(path):
                return f"changes users, rights or boot: {path}"
    return None


def _find(seen: SeenCommand, place: _Place) -> str | None:
    """Judge the start folders of a `find` that deletes, and the commands that it runs with `{}`."""
    words = seen.words[1:]
    deletes = "-delete" in words or any(
        word.startswith(("-exec", "-ok")) and basename(words[at + 1]) in (_DELETERS | _RIGHTS)
        for at, word in enumerate(words[:-1])
    )
    if not deletes:
        return None
    if any(at and words[at - 1] in ("-name", "-iname", "-path") and ".git" in word.split("/")
           for at, word in enumerate(words)):  # fmt: skip
        return "erases the repository's history"
    starts: list[str] = []
    for word in words:
        if word.startswith(("-", "(", "!")):
            break
        starts.append(word)
    is_narrow = any(word in _NARROWS for word in words)
    for real in {real for start in starts or ["."] for real, _ in _expand_target(start, place)}:
        is_system = real in _WHOLE_FOLDERS or real == _home()
        if (is_system or not is_narrow) and (why := _judge_erasure(real, place)):
            return why
    return None


_ERASING_PUSH = re.compile(
    r"--(?:force|mirror|prune|prun|pru|mirro|mirr|mir|mi|dele?t?e?)|-[A-Za-z]*[fd][A-Za-z]*|\+.+|\+?:.+"
)
"""The words of a push that erase what the other side has: by force, or branches and tags of it."""


def _git(seen: SeenCommand, place: _Place) -> str | None:
    words = list(seen.words[1:])
    while words and words[0].startswith("-"):
        if words[0] == "-C" and len(words) > 1:
            place = _Place(place.real(words[1]), place.roots)
        del words[: 2 if words[0] in ("-C", "-c", "--git-dir", "--work-tree") else 1]
    if not words:
        return None
    subcommand, rest = words[0], words[1:]
    short = "".join(word[1:] for word in rest if re.fullmatch(r"-[A-Za-z]+", word))
    erases = {
        "push": any(map(_ERASING_PUSH.fullmatch, rest)),
        "send-pack": any(map(_ERASING_PUSH.fullmatch, rest)),
        "filter-branch": True,
        "filter-repo": True,
        "reflog": rest[:1] in (["expire"], ["delete"], ["drop"]),
        "gc": any(re.match(r"--prune(?:=(?:now|all|0|.*second|.*minute).*)?$", word) for word in rest)
        and "--prune" not in rest,
        "prune": not {"-n", "--dry-run"} & set(rest),
        "update-ref": "d" in short or "--stdin" in rest,
    }
    if erases.get(subcommand):
        return f"erases history: git {subcommand}"
    if subcommand == "clean" and "x" in short.lower() and "f" in short:
        real = place.real(".")
        return f"erases the home folder: {real}" if real == _home() else None
    return None


def _dd(seen: SeenCommand, place: _Place) -> str | None:
    outputs = [word[3:] for word in seen.words[1:] if word.startswith("of=")]
    return next((why for out in outputs if (why := _overwrites(out, place))), None)


def _writes_operands(seen: SeenCommand, place: _Place) -> str | None:
    """Judge the files that `tee` and `truncate` write."""
    return next((why for out in _operands(seen) if (why := _overwrites(out, place))), None)


def _writes_last(seen: SeenCommand, place: _Place) -> str | None:
    operands = _operands(seen)
    targets = [operands[-1]] if len(operands) > 1 else []
    targets += [seen.words[at + 1] for at, word in enumerate(seen.words[:-1]) if word == "-t"]
    return next((why for out in targets if (why := _overwrites(out, place))), None)


def _edits_in_place(seen: SeenCommand, place: _Place) -> str | None:
    if not any(word.startswith("-") and "i" in word for word in seen.words[1:]):
        return None
    return _writes_operands(seen, place)


def _moves(seen: SeenCommand, place: _Place) -> str | None:
    return _writes_last(seen, place) or _erases(_operands(seen)[:-1], place)


def _syncs(seen: SeenCommand, place: _Place) -> str | None:
    operands = _operands(seen)
    if any(word.startswith("--delete") for word in seen.words) and operands:
        return _erases([operands[-1].rstrip("/") or "/"], place)
    return _writes_last(seen, place)


def _kill(seen: SeenCommand, place: _Place) -> str | None:
    words = list(seen.words[1:])
    if "-l" in words or "-L" in words:
        return None
    if words[:1] != ["-0"] and words[:2] != ["-s", "0"] and "1" in _operands(seen):
        at = words.index("1")
        if at == 0 or words[at - 1] not in ("-s", "-n", "--signal"):
            return "kills everything: process 1 belongs to the whole system"
    has_signal = False
    for at, word in enumerate(words):
        is_value = at > 0 and words[at - 1] in ("-s", "-n", "--signal")
        if word == "-1" and has_signal:
            return "kills everything"
        has_signal = (
            has_signal
            or is_value
            or word == "--"
            or word.startswith("--signal=")
            or (at == 0 and _SIGNAL.fullmatch(word) is not None)
        )
    return None


def _kill_by_name(seen: SeenCommand, place: _Place) -> str | None:
    operands = [word for word in _operands(seen) if word not in ("KILL", "TERM", "9", "15")]
    users = any(re.fullmatch(r"-[a-z]*[uU]|--user.*|--euid.*|-v|--inverse", word) for word in seen.words[1:])
    if users or any(
        word in ("", ".", ".*", "^", "$", ".+", "*", "init", "systemd", "[a-z]") for word in operands
    ):
        return "kills everything"
    return None


def _systemctl(seen: SeenCommand, place: _Place) -> str | None:
    operands = _operands(seen)
    if operands[:1] == ["set-default"]:
        return "changes how the machine boots"
    if operands and operands[0] in _POWER:
        return "stops the machine"
    if operands[:1] in (["stop"], ["disable"], ["mask"]) and any(
        re.match(r"(?:nftables|iptables|ufw|firewalld)", word) for word in operands[1:]
    ):
        return "changes the firewall"
    return None


def _containers(seen: SeenCommand, place: _Place) -> str | None:
    operands = _operands(seen)
    if operands[:2] in (["system", "prune"], ["volume", "prune"], ["system", "reset"]):
        return f"erases everything unused: {' '.join((seen.program, *operands[:2]))}"
    return None


def _erases_disk(*actions: str) -> Callable[[SeenCommand, _Place], str | None]:
    def judge(seen: SeenCommand, place: _Place) -> str | None:
        found = {word.lower() for word in seen.words[1:]}
        return "formats or wipes a disk" if found & set(actions) else None

    return judge


_BY_PROGRAM: Mapping[str, Callable[[SeenCommand, _Place], str | None]] = {
    "find": _find,
    "git": _git,
    "dd": _dd,
    "tee": _writes_operands,
    "truncate": _writes_operands,
    "sponge": _writes_operands,
    "sed": _edits_in_place,
    "perl": _edits_in_place,
    "cp": _writes_last,
    "install": _writes_last,
    "ln": _writes_last,
    "mv": _moves,
    "rsync": _syncs,
    "kill": _kill,
    "killall": _kill_by_name,
    "pkill": _kill_by_name,
    "skill": _kill_by_name,
    "systemctl": _systemctl,
    "docker": _containers,
    "podman": _containers,
    "git-filter-repo": lambda seen, place: "erases history: git-filter-repo",
    "bfg": lambda seen, place: "erases history: bfg",
    "cryptsetup": _erases_disk("luksformat", "erase", "luksremovekey", "lukserase"),
    "zpool": _erases_disk("destroy", "labelclear"),
    "zfs": _erases_disk("destroy"),
    "diskutil": _erases_disk(
        "erasedisk", "erasevolume", "partitiondisk", "zerodisk", "reformat", "secureerase"
    ),
    "nvme": _erases_disk("format", "sanitize"),
    "hdparm": _erases_disk("--security-erase", "--trim-sector-ranges"),
    "badblocks": _erases_disk("-w", "-ws", "-wsv"),
    "mdadm": _erases_disk("--zero-superblock"),
}
