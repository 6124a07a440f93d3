"""Finds the wrapped command in commands such as `sudo -u me env A=1 rm`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from posixpath import basename
from typing import NamedTuple

from .given_texts import git_subcommand_at

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)


class _Wrapper(NamedTuple):
    valued: str = ""
    """The letters of the options that take a value."""
    long_valued: str = ""
    skipped: int = 0
    """The number of operands before the wrapped program."""
    lookups: str = ""
    """The options with which the wrapper runs no program."""


_WRAPPERS: Mapping[str, _Wrapper] = {
    "builtin": _Wrapper(),
    "busybox": _Wrapper(lookups="--list --help"),
    "toybox": _Wrapper(lookups="--long --help"),
    "chpst": _Wrapper("uUbe/nlLdomfcrtp"),
    "chroot": _Wrapper("", "--userspec --groups", 1),
    "chrt": _Wrapper("TPDp", "--pid", 1),
    "command": _Wrapper(lookups="-v -V"),
    "coproc": _Wrapper(),
    "doas": _Wrapper("uC"),
    "env": _Wrapper("uCa", "--unset --chdir --argv0"),
    "exec": _Wrapper("a"),
    "firejail": _Wrapper(),
    "flock": _Wrapper("wE", "--wait --timeout --conflict-exit-code", 1),
    "gdb": _Wrapper("xpse"),
    "ionice": _Wrapper("cnpPu", "--class --classdata"),
    "ltrace": _Wrapper("aAbeFlnopsuwxD"),
    "nice": _Wrapper("n", "--adjustment"),
    "nohup": _Wrapper(),
    "noglob": _Wrapper(),
    "nsenter": _Wrapper("tSG", "--target --setuid --setgid"),
    "numactl": _Wrapper("NmCip"),
    "pkexec": _Wrapper("", "--user"),
    "prlimit": _Wrapper("op", "--pid --output"),
    "proot": _Wrapper("rbwqkR"),
    "proxychains": _Wrapper("f"),
    "proxychains4": _Wrapper("f"),
    "rlwrap": _Wrapper("abcfHlpPqsSz"),
    "runuser": _Wrapper("ugGcs", "--user --group --command --shell"),
    "setpriv": _Wrapper("", "--reuid --regid --groups --inh-caps --bounding-set --ambient-caps"),
    "setsid": _Wrapper(),
    "stdbuf": _Wrapper("ioe", "--input --output --error"),
    "strace": _Wrapper("aebEoOpPsSuX"),
    "sudo": _Wrapper(
        "aCcDghprRtTuU", "--user --group --host --prompt --chdir --chroot --role --type", 0, "-l -v -k -K"
    ),
    "systemd-run": _Wrapper("pEHMu", "--unit --property --slice --description"),
    "systemd-inhibit": _Wrapper(),
    "taskset": _Wrapper("", "", 1),
    "time": _Wrapper("fo", "--format --output"),
    "timeout": _Wrapper("ks", "--kill-after --signal", 1),
    "torsocks": _Wrapper(),
    "unbuffer": _Wrapper(),
    "unshare": _Wrapper("SGRw", "--map-user --map-group --setuid --setgid --root --wd"),
    "valgrind": _Wrapper(),
    "watch": _Wrapper("n", "--interval"),
    "xargs": _Wrapper("IdEnLPsaJ", "--arg-file --delimiter --max-args --max-lines --max-procs --max-chars"
                      " --process-slot-var"),
    "fakeroot": _Wrapper("lsbi", "--lib --faked"),
    "xvfb-run": _Wrapper("efnpsw"),
    "cpulimit": _Wrapper("leP"),
    "gtimeout": _Wrapper("ks", "--kill-after --signal", 1),
    "gosu": _Wrapper("", "", 1),
    "su-exec": _Wrapper("", "", 1),
    "s6-setuidgid": _Wrapper("", "", 1),
    "caffeinate": _Wrapper("tw"),
    "dbus-run-session": _Wrapper(),
    "docker exec": _Wrapper("euw", "--env --user --workdir --env-file --detach-keys", 1),
    "podman exec": _Wrapper("euw", "--env --user --workdir --env-file", 1),
    "docker run": _Wrapper("evwuplmhc", "--env --volume --workdir --user --name --network --entrypoint", 1),
    "podman run": _Wrapper("evwuplmhc", "--env --volume --workdir --user --name --network --entrypoint", 1),
    "git bisect run": _Wrapper(),
    "npm exec": _Wrapper("pwc", "--package --workspace"),
    "npx": _Wrapper("pc", "--package"),
    "uv run": _Wrapper("p", "--python --with --extra --group"),
    "poetry run": _Wrapper(),
    "pipenv run": _Wrapper(),
    "hatch run": _Wrapper(),
    "bundle exec": _Wrapper(),
    "conda run": _Wrapper("np", "--name --prefix"),
    "dotenv run": _Wrapper(),
    "direnv exec": _Wrapper("", "", 1),
    "nix-shell --run": _Wrapper(),
    "start-stop-daemon": _Wrapper("pnuagc"),
    "chronic": _Wrapper(),
    "ifne": _Wrapper(),
    "eatmydata": _Wrapper(),
    "linux32": _Wrapper(),
    "linux64": _Wrapper(),
    "i386": _Wrapper(),
    "x86_64": _Wrapper(),
    "catchsegv": _Wrapper(),
    "torify": _Wrapper(),
    "tsocks": _Wrapper(),
    "shell": _Wrapper(),  # `$(shell ...)` in a text for make
    "cmake -E env": _Wrapper(),
    "cmake -E time": _Wrapper(),
    "cmake -E chdir": _Wrapper("", "", 1),
    "git merge-index": _Wrapper(),
}  # fmt: skip
_LOOSE = frozenset((
    "ansible", "arch", "aws-vault exec", "bun x", "bunx", "bwrap", "cgexec", "chamber exec", "choom",
    "composer exec", "daemon", "daemonize", "dbus-launch", "dbus-run-session", "docker compose exec",
    "docker compose run", "docker-compose exec", "docker-compose run", "doppler run", "dotenvx run",
    "dumb-init", "entr", "env-cmd", "cross-env", "envdir", "faketime", "foreman run", "guix shell",
    "ip netns", "ip vrf", "kubectl exec", "logsave", "lxc exec", "lxc-attach", "micromamba run", "mise exec",
    "mpirun", "nix develop", "nix run", "nix shell", "npm explore", "nsjail", "op run", "pdm run",
    "perf record", "perf stat", "perf trace", "pipx run", "pnpm dlx", "pnpm exec", "podman unshare",
    "qemu-x86_64", "rye run", "asdf exec", "runcon", "sandbox-exec", "screen", "setarch", "setuidgid",
    "softlimit", "srun", "sshpass", "systemd-cat", "systemd-nspawn", "tini", "tmux", "trickle", "uclampset",
    "uv tool", "uvx", "watchexec", "yarn exec",
))  # fmt: skip
"""Wrappers whose options are not listed here: each word without a dash may be the wrapped program."""
_LOADER = re.compile(r"ld-linux[\w.-]*\.so[.\d]*|ld[\w.-]*\.so[.\d]*|ld-musl-[\w.-]+")
_FROM_HERE = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"})
_FINDERS = frozenset({"find", "gfind", "fd", "fdfind", "bfs"})


def find_wrapped_commands(words: Sequence[str]) -> Iterator[int]:
    """Yield each position at which the wrapped command may begin. An unknown option leads to several."""
    name = basename(words[0])
    if name in _FINDERS:
        yield from (at + 1 for at, word in enumerate(words) if word in _FROM_HERE and at + 1 < len(words))
        return
    if name == "kubectl" and "--" in words[1:-1]:
        yield words.index("--") + 1
        return
    if name in _LOOSE or any(" ".join((name, *words[1:count])) in _LOOSE for count in (2, 3)):
        yield from (at for at, word in enumerate(words) if at and not word.startswith("-"))
        return
    if name == "git":
        at = git_subcommand_at(words)
        yield from (at - 1 + start for start in _starts_of_git(("git", *words[at:])))
        return
    found = _wrapper(name, words)
    if found is not None:
        yield from _after_options(*found, words)


def _starts_of_git(words: Sequence[str]) -> Iterator[int]:
    if found := _wrapper("git", words):
        yield from _after_options(*found, words)


def _wrapper(name: str, words: Sequence[str]) -> tuple[_Wrapper, int] | None:
    """Return the wrapper, and the number of words in its name, such as 2 for `docker exec`."""
    if _LOADER.fullmatch(name):
        return _Wrapper(), 1
    if name in _WRAPPERS:
        return _WRAPPERS[name], 1
    if name in _FIRST_OF_SEVERAL:
        for count in (2, 3):
            key = " ".join((name, *words[1:count]))
            if key in _WRAPPERS:
                return _WRAPPERS[key], count
    return None


_FIRST_OF_SEVERAL = frozenset(name.split()[0] for name in _WRAPPERS if " " in name)


def _after_options(wrapper: _Wrapper, at: int, words: Sequence[str]) -> Iterator[int]:
    left, doubted = wrapper.skipped, set[int]()
    lookups = wrapper.lookups.split()
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word == "-":
            at += 1
        elif word.startswith("-"):
            if word in lookups:
                return
            takes = _takes_next(wrapper, word)
            if takes is None:
                doubted.add(at + 2)
            at += 2 if takes else 1
        elif _ASSIGNMENT.match(word) and not left:
            at += 1
        elif left:
            left -= 1
            at += 1
        else:
            break
    yield from sorted(start for start in {at + left, *doubted} if start < len(words))


def _takes_next(wrapper: _Wrapper, word: str) -> bool | None:
    """Return whether the next word is the option's value, or None if that is unknown."""
    if word.startswith("--"):
        return False if "=" in word else word in _long_valued(wrapper) or None
    at = next((at for at, letter in enumerate(word) if letter in wrapper.valued), None)
    return False if at is None else at == len(word) - 1


@cache
def _long_valued(wrapper: _Wrapper) -> frozenset[str]:
    return frozenset(wrapper.long_valued.split())
