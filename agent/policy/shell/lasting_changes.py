"""Finds commands whose effect on the machine outlasts the session. They need approval in every mode."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from posixpath import expanduser, join, realpath

from .reasons import find_writes
from .seen_commands import SeenCommand, Sight

_BY_WORDS: Mapping[str, tuple[str, str]] = {
    # program -> the words with one of which it changes something (`+` joins the first two), and what it is
    "at": ("", "plans a command for later"),
    "batch": ("", "plans a command for later"),
    "systemctl": (
        "enable disable reenable preset preset-all link edit mask unmask add-wants add-requires set-property"
        " import-environment set-environment revert",
        "changes the services of the machine",
    ),
    "launchctl": (
        "load unload bootstrap bootout enable disable submit setenv",
        "changes the services of the machine",
    ),
    "loginctl": ("enable-linger disable-linger", "changes the services of the machine"),
    "update-rc.d": ("", "changes the services of the machine"),
    "chkconfig": ("on off --add --del --level", "changes the services of the machine"),
    "rc-update": ("add del delete -u", "changes the services of the machine"),
    "hostnamectl": ("set-hostname hostname set-deployment", "changes the settings of the machine"),
    "timedatectl": ("set-time set-timezone set-ntp set-local-rtc", "changes the settings of the machine"),
    "localectl": ("set-locale set-keymap set-x11-keymap", "changes the settings of the machine"),
    "update-alternatives": (
        "--set --install --remove --remove-all --config --auto --set-selections",
        "changes the settings of the machine",
    ),
    "setenforce": ("", "changes the settings of the machine"),
    "modprobe": ("", "changes the kernel"),
    "insmod": ("", "changes the kernel"),
    "rmmod": ("", "changes the kernel"),
    "swapoff": ("", "changes the kernel"),
    "swapon": ("-a --all", "changes the kernel"),
    "umount": ("", "changes what is mounted"),
    "pivot_root": ("", "changes what is mounted"),
    "fusermount": ("", "changes what is mounted"),
    "fusermount3": ("", "changes what is mounted"),
    "udisksctl": ("mount unmount", "changes what is mounted"),
    "losetup": ("-d -D --detach --detach-all", "changes what is mounted"),
    "ssh-copy-id": ("", "permits a login"),
    "chsh": ("", "changes users or what they may do"),
    "npm": ("config+set config+delete config+edit c+set set", "changes your settings"),
    "pnpm": ("config+set config+delete set", "changes your settings"),
    "yarn": ("config+set", "changes your settings"),
    "pip": ("config+set config+unset config+edit", "changes your settings"),
    "go": ("env+-w env+-u", "changes your settings"),
    "conda": ("config+--add config+--set config+--remove config+--append", "changes your settings"),
    "gh": ("config+set alias+set auth+login auth+setup-git", "changes your settings"),
}  # fmt: skip
_SAME = {"pip3": "pip", "mamba": "conda"}
_LOOKS = frozenset(("--help", "-h", "--version", "-V", "-l", "--list", "-n", "--dry-run", "-c"))
_PLACE = re.compile(
    r"/etc/(?:cron[^/]*|systemd|init\.d|rc\.local|rc\d\.d|profile|profile\.d|environment|bash\.bashrc|zsh|ssh|pam\.d"
    r"|ld\.so\.conf(?:\.d)?|sysctl\.conf|sysctl\.d|modules-load\.d|udev|gitconfig|hosts|resolv\.conf|apt)(?:/.*)?"
    r"|/var/spool/(?:cron|at)(?:/.*)?|/(?:usr/)?lib/systemd/.*|/proc/sys/.*|/sys/.*"
)
"""Files of the machine that run commands later, or that change how it works."""
_GIT_SETS = re.compile(
    r"--(?:add|unset|unset-all|replace-all|rename-section|remove-section|edit)|-e|set|unset|edit"
)
_GIT_FOR_ALL = re.compile(r"--(?:g(?:l(?:o(?:b(?:a(?:l)?)?)?)?)?|sy(?:s(?:t(?:e(?:m)?)?)?)?)")
_GIT_READS = re.compile(r"--get(?:-.*)?|--list|-l|get|list")
_KEY_LOOKS = re.compile(r"-[a-zA-Z]*[lyBFLQr]|-Y|-E")


def find_lasting_change(sight: Sight, cwd: str) -> str | None:
    """Return what a line changes beyond the session, as a clause, or None."""
    for seen in sight.commands:
        if why := _judge(seen, cwd):
            return why
    place = next((real for real, _ in find_writes(sight, cwd) if _PLACE.fullmatch(real)), None)
    return None if place is None else f"changes the settings of the machine: {place}"


def _judge(seen: SeenCommand, cwd: str) -> str | None:
    program = _SAME.get(seen.program, seen.program)
    if judge := _BY_PROGRAM.get(program):
        return judge(seen, cwd)
    known = _BY_WORDS.get(program)
    if known is None:
        return None
    words = {*seen.words[1:], "+".join(seen.words[1:3])}
    changing, why = known
    is_changing = words.intersection(changing.split()) if changing else not words.intersection(_LOOKS)
    return f"{why}: {' '.join(seen.words[:3])}" if is_changing else None


def _crontab(seen: SeenCommand, cwd: str) -> str | None:
    is_looking = "-l" in seen.words[1:] or "--help" in seen.words[1:]
    return None if is_looking else "plans commands for later: crontab"


def _mount(seen: SeenCommand, cwd: str) -> str | None:
    words = set(seen.words[1:])
    is_looking = words <= {"-l", "-v", "--version", "-V", "--help", "-h", "--show-labels"} or (
        "-t" in words and len(words) == 2
    )
    return None if is_looking else f"changes what is mounted: {' '.join(seen.words[:4])}"


def _sysctl(seen: SeenCommand, cwd: str) -> str | None:
    words = seen.words[1:]
    sets = any(
        "=" in word or word in ("-w", "--write", "-p", "--system") or word[:2] == "-p" for word in words
    )
    return "changes the kernel: sysctl" if sets else None


def _systemd_run(seen: SeenCommand, cwd: str) -> str | None:
    is_timed = any(word.startswith(("--on-", "--timer", "--path", "--socket")) for word in seen.words[1:])
    return "plans a command for later: systemd-run" if is_timed else None


def _git(seen: SeenCommand, cwd: str) -> str | None:
    """Judge settings of git that count in every repository."""
    words = list(seen.words[1:])
    if "config" not in words:
        return None
    rest = words[words.index("config") + 1 :]
    files = list(_list_config_files(rest))
    is_for_all = any(map(_GIT_FOR_ALL.fullmatch, rest)) or any(
        realpath(join(cwd, expanduser(re.sub(r"^\$(?:HOME|\{HOME\})(?=/)", "~", file))))
        in _list_git_settings()
        for file in files
    )
    if not is_for_all:
        return None
    operands = [word for word in rest if not word.startswith("-") and word not in files]
    sets = any(map(_GIT_SETS.fullmatch, rest)) or len(operands) > 1
    reads = any(map(_GIT_READS.fullmatch, rest))
    return "changes your settings: git config for every repository" if sets and not reads else None


def _list_config_files(words: Sequence[str]) -> Iterator[str]:
    """Yield the files that `git config` is to change, of `-f` and `--file`."""
    for word, following in zip(words, (*words[1:], ""), strict=True):
        if word in ("-f", "--file"):
            yield following
        elif found := re.match(r"(?:-f|--file=)(.+)", word):
            yield found[1]


def _list_git_settings() -> Iterator[str]:
    """Yield the files of git that count in every repository."""
    yield from map(realpath, map(expanduser, ("~/.gitconfig", "~/.config/git/config", "/etc/gitconfig")))


def _ssh_keygen(seen: SeenCommand, cwd: str) -> str | None:
    words = seen.words
    if any(map(_KEY_LOOKS.fullmatch, words[1:])):
        return None
    given = [following for word, following in zip(words, (*words[1:], ""), strict=True) if word == "-f"]
    given += [word[2:] for word in words[1:] if re.match(r"-f.", word)]
    folder = realpath(expanduser("~/.ssh"))
    places = [realpath(join(cwd, expanduser(name.replace("$HOME", "~")))) for name in given]
    is_own = not given or any(place.startswith(f"{folder}/") for place in places)
    return "changes the keys in ~/.ssh: ssh-keygen" if is_own else None


_BY_PROGRAM: Mapping[str, Callable[[SeenCommand, str], str | None]] = {
    "crontab": _crontab,
    "mount": _mount,
    "sysctl": _sysctl,
    "systemd-run": _systemd_run,
    "git": _git,
    "ssh-keygen": _ssh_keygen,
}
