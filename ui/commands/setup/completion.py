"""`sandbur completion`: prints a completion script for bash, zsh or fish, generated from the parsers."""

import shlex
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...cli.argument_types import OneOf, one_of
from ...cli.grammar import COMMANDS, Command, command_class, parser_for, word
from ...terminal.terminal import put
from .help import flags_of

SHELLS = ("bash", "zsh", "fish")
_PATHS = frozenset({"FILE", "DIR", "PATH"})
_DECIDING = ("approve", "deny", "settle")
"""Commands that take a session with pending calls."""


class CompletionCommand(Command):
    GROUPS = ()
    EXAMPLES = (
        ('eval "$(sandbur completion bash)"', "in ~/.bashrc"),
        ('eval "$(sandbur completion zsh)"', "in ~/.zshrc, after compinit"),
        ("sandbur completion fish > ~/.config/fish/completions/sandbur.fish", "once"),
    )
    shell: str = word("|".join(SHELLS), "the shell", type=one_of(SHELLS))

    async def run(self) -> int:
        put({"bash": bash, "zsh": zsh, "fish": fish}[self.shell](tuple(describe())))
        return 0


class Option(NamedTuple):
    names: tuple[str, ...]
    about: str
    takes: str
    """The placeholder of its value; empty: it has no value."""
    choices: tuple[str, ...]


class Described(NamedTuple):
    """A command with its words and flags; the chat has an empty name."""

    name: str
    about: str
    options: tuple[Option, ...]
    words: tuple[str, ...]
    """The words that may follow it."""
    before_session: tuple[str, ...] = ()
    """The words after which a session id follows; the name of the command stands for its first argument."""


def describe() -> Iterator[Described]:
    for name in ("chat", *COMMANDS):
        parser = parser_for(name)
        options = tuple(
            Option(
                tuple(one.option_strings),
                " ".join((one.help or "").replace("%%", "%").split()),
                "" if one.nargs == 0 else str(one.metavar or one.dest),
                one.type.names if isinstance(one.type, OneOf) else (),
            )
            for one in flags_of(parser)
        )
        words = tuple(COMMANDS if name == "chat" else command_class(name).ACTIONS)
        about = COMMANDS[name].summary if name in COMMANDS else ""
        yield Described(
            "" if name == "chat" else name, about, options, words, tuple(_before_session(name, parser.words))
        )


def _before_session(name: str, words: list[str]) -> Iterator[str]:
    actions = command_class(name).ACTIONS
    yield from (action for action, spec in actions.items() if spec.words.startswith("ID"))
    if not actions and words and words[0].startswith("ID"):
        yield name
    elif "ID" in words and not actions:
        yield words[0]  # as in `sandbur test add ID`


def bash(commands: tuple[Described, ...]) -> str:
    """Return a script for bash without other programs."""
    cases = _lines(
        f"{_name(one)}) flags={shlex.quote(_join(one.options))} words={shlex.quote(' '.join(one.words))} ;;"
        for one in commands
    )
    chosen = _lines(
        f'{"|".join(where)}) COMPREPLY=($(compgen -W {shlex.quote(" ".join(choices))} -- "$current"));'
        " return ;;"
        for choices, where in _choices(commands).items()
    )
    sessions = _lines(
        f'{"|".join(places)}) _sandbur_sessions {kind} "$current"; return ;;'
        for kind, places in _sessions(commands).items()
    )
    return f"""# bash completion for sandbur
_sandbur_sessions() {{
  local word
  COMPREPLY=()
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <({_ask_start("bash")} "$1" "$2" 2>/dev/null)
}}
_sandbur() {{
  local current previous command=chat flags words at
  current="${{COMP_WORDS[COMP_CWORD]}}"
  previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  for ((at = 1; at < COMP_CWORD; at++)); do
    case "${{COMP_WORDS[at]}}" in
    {"|".join(COMMANDS)}) command="${{COMP_WORDS[at]}}"; break ;;
    esac
  done
  case "$command:$previous" in
{chosen}
    {"|".join(_paths(commands))}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  [[ "$current" == -* ]] || case "$command:$previous" in
{sessions}
  esac
  case "$command" in
{cases}
  esac
  if [[ "$current" == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
  elif [[ -n "$words" && ( "$command" == chat || "$previous" == "$command" ) ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _sandbur sandbur"""


def zsh(commands: tuple[Described, ...]) -> str:
    """Return a script for zsh that describes each flag; it must be loaded after `compinit`."""
    cases = _lines(
        f"({_name(one)}) flags=({_describe_word(one.options)}) names=({_describe_words(one)}) ;;"
        for one in commands
    )
    chosen = _lines(
        f"({'|'.join(where)}) compadd -- {' '.join(map(shlex.quote, choices))}; return ;;"
        for choices, where in _choices(commands).items()
    )
    sessions = _lines(
        f"({'|'.join(places)}) _sandbur_sessions {kind}; return ;;"
        for kind, places in _sessions(commands).items()
    )
    return f"""#compdef sandbur
{_zsh_sessions()}
_sandbur() {{
  local command=chat word
  local -a flags names
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    case "$word" in
    ({"|".join(COMMANDS)}) command=$word; break ;;
    esac
  done
  case "$command:${{words[CURRENT-1]}}" in
{chosen}
    ({"|".join(_paths(commands))}) _files; return ;;
  esac
  [[ "$PREFIX" == -* ]] || case "$command:${{words[CURRENT-1]}}" in
{sessions}
  esac
  case "$command" in
{cases}
  esac
  if [[ "$PREFIX" == -* ]]; then
    _describe -o flag flags
  elif (( $#names )) && [[ "$command" == chat || "${{words[CURRENT-1]}}" == "$command" ]]; then
    _describe command names
  else
    _files
  fi
}}
compdef _sandbur sandbur"""


def _zsh_sessions() -> str:
    return rf"""_sandbur_sessions() {{
  local line
  local -a ids shown
  while IFS= read -r line; do
    ids+=("${{line%%$'\t'*}}")
    shown+=("${{line/$'\t'/  }}")
  done < <({_ask_start("zsh")} $1 "$PREFIX" 2>/dev/null)
  (( $#ids )) || return 1
  if [[ "$ids[1]" == "$PREFIX"* ]]; then
    compadd -l -d shown -a ids
  else
    # It was found by its title: the id takes the place of what was typed.
    compadd -U -l -d shown -a ids
    (( $#ids == 1 )) || compstate[insert]=menu
  fi
}}"""


def fish(commands: tuple[Described, ...]) -> str:
    """Return a script for the completions folder of fish."""
    lines = ["# fish completion for sandbur", "complete -c sandbur -f"]
    for one in commands:
        seen = f"__fish_seen_subcommand_from {one.name or ' '.join(COMMANDS)}"
        begins = f"complete -c sandbur -n {shlex.quote(seen if one.name else f'not {seen}')}"
        lines += [
            f"{begins} -a {shlex.quote(word)} -d {shlex.quote(_about(one, word))}" for word in one.words
        ]
        lines += [f"{begins} {_fish_flag(option)} -d {shlex.quote(option.about)}" for option in one.options]
        lines += [
            f"complete -c sandbur -n {shlex.quote(behind)} -k -x -a {shlex.quote(_fish_sessions(kind))}"
            for kind, behind in _fish_places(one)
        ]
    return "\n".join(lines)


def _fish_flag(option: Option) -> str:
    spelled = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    takes = ["-r -F" if option.takes in _PATHS else "-x"] if option.takes else []
    takes += [f"-a {shlex.quote(' '.join(option.choices))}"] if option.choices else []
    takes += [f"-k -a {shlex.quote(_fish_sessions('all'))}"] if option.takes == "ID" else []
    return " ".join([*spelled, *takes])


def _fish_sessions(kind: str) -> str:
    return f"({_ask_start('fish')} {kind} (commandline -ct) 2>/dev/null)"


def _fish_places(one: Described) -> Iterator[tuple[str, str]]:
    """Yield which sessions follow the words of a command, and the condition for it."""
    if one.before_session:
        seen = "__fish_seen_subcommand_from"
        more = "" if one.name in one.before_session else f"; and {seen} {' '.join(one.before_session)}"
        yield _kind(one), f"{seen} {one.name}{more}"


def _ask_start(shell: str) -> str:
    """Return the start of the command that lists sessions.

    It runs in untrusted folders, hence `-P`: nothing is imported from there.
    """
    module = f"{__name__.rpartition('.')[0]}.session_words"
    return f"{shlex.quote(sys.executable)} -P -m {module} {shell}"


def _kind(command: Described) -> str:
    return "waiting" if command.name in _DECIDING else "all"


def _sessions(commands: Iterable[Described]) -> dict[str, list[str]]:
    """Return each kind of session with the `COMMAND:WORD` patterns after which its ids follow."""
    found: dict[str, list[str]] = {}
    for one in commands:
        words = [name for option in one.options if option.takes == "ID" for name in option.names]
        places = [f"{_name(one)}:{word}" for word in (*words, *one.before_session)]
        if one.name in one.before_session:
            places.append(f"{one.name}:-*")
        if one.name == "diff":
            places.append("diff:*")
        if places:
            found.setdefault(_kind(one), []).extend(places)
    return found


def _name(command: Described) -> str:
    return command.name or "chat"


def _about(command: Described, word: str) -> str:
    return COMMANDS[word].summary if not command.name else command_class(command.name).ACTIONS[word].about


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _join(options: Iterable[Option]) -> str:
    return " ".join(name for option in options for name in option.names)


def _describe_word(options: Iterable[Option]) -> str:
    return " ".join(shlex.quote(f"{name}:{option.about}") for option in options for name in option.names)


def _describe_words(command: Described) -> str:
    return " ".join(shlex.quote(f"{word}:{_about(command, word)}") for word in command.words)


def _choices(commands: Iterable[Described]) -> dict[tuple[str, ...], list[str]]:
    """Return the values that flags accept, with the `COMMAND:FLAG` of each."""
    found: dict[tuple[str, ...], list[str]] = {}
    for one in commands:
        for option in one.options:
            if option.choices:
                found.setdefault(option.choices, []).extend(f"{_name(one)}:{name}" for name in option.names)
    return found


def _paths(commands: Iterable[Described]) -> list[str]:
    return [
        f"{_name(one)}:{name}"
        for one in commands
        for option in one.options
        if option.takes in _PATHS
        for name in option.names
    ]
