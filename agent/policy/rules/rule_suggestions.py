"""Suggests rules for "always allow": for this call alone, its prefix, all edits, or all sandboxed calls."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from ....actions.ports import BadArguments, Gate, Ports, Tool
from ....actions.tools.shell.sandbox.sandbox import sandbox_kind
from ....state.application import ExecutionMode
from ....state.calls import PendingCall
from ....state.errors import UsageError
from ....state.session import SessionSettings
from ..shell.reasons import find_reading_part
from .rules import exact_rule, sandbox_rule

SuggestionKind = Literal["exact", "prefix", "edits", "sandbox"]
EDITING: ExecutionMode = "auto-edit"
GateOf = Callable[[SessionSettings], Gate]
"""Builds the gate of a session from the session's settings."""


class RuleSuggestion(NamedTuple):
    kind: SuggestionKind
    rule: str = ""
    """An allow rule; empty if a mode allows the call."""
    mode: ExecutionMode | None = None
    """The mode that allows the call; None if the rule allows it."""


_PREFIX = re.compile(
    r"\s*(?P<program>[A-Za-z][A-Za-z0-9_.+-]*)[ \t]+"
    r"(?P<words>(?:run(?:-script)?[ \t]+)?[a-z][a-z0-9:_-]*)(?=\s|$)"
)
_VERSION = re.compile(r"[0-9.]+$")
NO_PREFIX = frozenset((
    # shells, interpreters, and programs that take a program as text
    "ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "rbash", "sh", "tcsh", "zsh", "pwsh",
    "powershell", "awk", "gawk", "mawk", "nawk", "bun", "deno", "ed", "emacs", "ex", "expect", "gdb",
    "ghci", "groovy", "java", "jshell", "julia", "lldb", "lua", "luajit", "nim", "node", "nodejs", "nvim",
    "osascript", "perl", "php", "pypy", "python", "Rscript", "R", "ruby", "runghc", "scala", "sed", "tclsh",
    "vi", "vim", "wish",
    # programs that run their arguments, here or on another machine
    "ansible", "at", "batch", "builtin", "bunx", "chroot", "chrt", "command", "crontab", "docker", "doas",
    "env", "eval", "exec", "fd", "find", "flock", "ionice", "kubectl", "ltrace", "nerdctl", "nice", "nohup",
    "npx", "nsenter", "parallel", "pipx", "pkexec", "pnpx", "podman", "proxychains", "runuser", "screen",
    "script", "setpriv", "setsid", "source", "ssh", "stdbuf", "strace", "su", "sudo", "systemd-run",
    "taskset", "time", "timeout", "tmux", "trap", "unbuffer", "unshare", "uvx", "vagrant", "watch", "xargs",
    # the network
    "aria2c", "aws", "az", "curl", "ftp", "gcloud", "gh", "glab", "http", "https", "nc", "ncat", "netcat",
    "rclone", "rsync", "scp", "sftp", "socat", "telnet", "wget", "xh",
    # programs that destroy, or that change the machine
    "chattr", "chgrp", "chmod", "chown", "cp", "dd", "fdisk", "halt", "install", "iptables", "kill",
    "killall", "ln", "mkfs", "mount", "mv", "nft", "parted", "passwd", "pkill", "poweroff", "reboot", "rm",
    "rmdir", "service", "shred", "shutdown", "systemctl", "tee", "terraform", "truncate", "ufw", "umount",
    "unlink", "useradd", "userdel", "usermod", "visudo", "apt", "apt-get", "brew", "dnf", "pacman", "yum",
))  # fmt: skip
"""Programs whose subcommand does not limit their effect enough. Version suffixes of the names are ignored."""
NO_SUBCOMMAND = frozenset((
    "alias", "apply", "clean", "ci", "clone", "config", "credential", "delete", "deploy", "destroy", "dlx",
    "eval", "exec", "filter-branch", "get", "i", "init", "install", "link", "login", "publish", "purge",
    "push", "release", "remote", "remove", "repl", "reset", "rm", "run", "run-script", "shell", "submodule",
    "uninstall", "upload", "x",
))  # fmt: skip
"""Subcommands that can be followed by any program or code."""


def find_prefix(command: str) -> str | None:
    """Return the pattern `PROGRAM SUBCOMMAND *` for a command, or None if this pattern would allow too
    much."""
    looking = find_reading_part(command.split() or [""])
    if looking is not None:
        return f"{looking} *"
    found = _PREFIX.match(command)
    if found is None:
        return None
    program, words = found["program"], found["words"].split()
    if {program, _VERSION.sub("", program)} & NO_PREFIX or words[-1] in NO_SUBCOMMAND:
        return None
    return " ".join((program, *words, "*"))


def rules_for(tool: Tool, arguments: Any) -> Iterator[RuleSuggestion]:
    """Yield rules that may cover this call. Only the gate decides whether they do."""
    subject = tool.subject(arguments)
    if tool.traits.runs_commands:
        yield RuleSuggestion("exact", exact_rule(tool.spec.name, subject))
        if (prefix := find_prefix(subject)) is not None:
            yield RuleSuggestion("prefix", f"{tool.spec.name}({prefix})")
    else:
        # A pattern without a slash matches every file of that name.
        is_name = "/" not in subject and subject in tool.paths(arguments)
        yield RuleSuggestion("exact", exact_rule(tool.spec.name, f"./{subject}" if is_name else subject))


def suggest_rules_for_call(
    call: PendingCall, ports: Ports, settings: SessionSettings, gate_of: GateOf, mode: ExecutionMode
) -> tuple[RuleSuggestion, ...]:
    """Return the suggestions for "always allow" of a waiting call. Each suggestion would allow this call."""
    tool = ports.toolbox.get(call.tool)
    if tool is None:
        return ()
    try:
        arguments = tool.parse(call.arguments)
    except BadArguments:
        return ()
    offered: list[RuleSuggestion] = []
    for offer in (*rules_for(tool, arguments), *_in_sandbox(tool)):
        with suppress(UsageError):  # no rule can express some commands
            gate = gate_of(settings.model_copy(update={"allow": (*settings.allow, offer.rule)}))
            verdict = gate.judge(tool, arguments, mode)
            fits = verdict.decision == "allow" and (verdict.in_sandbox or offer.kind != "sandbox")
            offered += [offer] if fits else []
    if tool.traits.writes_files and mode == "interactive":
        edits = gate_of(settings).judge(tool, arguments, EDITING)
        offered += [RuleSuggestion("edits", mode=EDITING)] if edits.decision == "allow" else []
    return tuple(offered)


def _in_sandbox(tool: Tool) -> Iterator[RuleSuggestion]:
    """Yield the rule that allows sandboxed commands, if a sandbox works on this machine."""
    if tool.traits.runs_commands and sandbox_kind() is not None:
        yield RuleSuggestion("sandbox", sandbox_rule(tool.spec.name))
