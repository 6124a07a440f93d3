"""`sandbur completion`: prints a script for a shell, which runs `sandbur _complete` for candidates."""

import shlex
import sys

from ....cli.argument_types import one_of
from ....cli.grammar import Command, word
from ....terminal.terminal import put

_SCRIPTS = {
    "bash": """\
# bash completion for sandbur
_sandbur() {
  local IFS=$'\\n' line current="${COMP_WORDS[COMP_CWORD]}"
  COMPREPLY=()
  while read -r line; do
    COMPREPLY+=("$line")
  done < <(ASK bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [[ "${COMPREPLY[0]-}" != : ]] || COMPREPLY=($(compgen -f -- "$current"))
}
complete -o filenames -F _sandbur sandbur""",
    "zsh": """\
#compdef sandbur
_sandbur() {
  local line
  local -a names texts
  while IFS= read -r line; do
    names+=("${line%%$'\\t'*}")
    texts+=("${line/$'\\t'/  }")
  done < <(ASK zsh "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)
  (( $#names )) || return 1
  if [[ "$names[1]" == : ]]; then
    _files
  elif [[ "$names[1]" == "$PREFIX"* ]]; then
    compadd -l -d texts -a names
  else
    # A title matched: its id replaces the typed word.
    compadd -U -l -d texts -a names
    (( $#names == 1 )) || compstate[insert]=menu
  fi
}
if [[ "$funcstack[1]" == _sandbur ]]; then
  _sandbur "$@"  # zsh itself loads this file, from a folder of completions
else
  compdef _sandbur sandbur
fi""",
    "fish": """\
# fish completion for sandbur
function __sandbur_candidates
    set -l lines (ASK fish (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
    if test "$lines" = :
        __fish_complete_path (commandline -ct)
    else if set -q lines[1]
        printf '%s\\n' $lines
    end
end
complete -c sandbur -f -k -a '(__sandbur_candidates)'""",
}
"""A script for each shell; `ASK` is the command that prints a line for each candidate, or `:` for files."""


class CompletionCommand(Command):
    GROUPS = ()
    EXAMPLES = (
        ('eval "$(sandbur completion bash)"', "in ~/.bashrc"),
        ('eval "$(sandbur completion zsh)"', "in ~/.zshrc, after compinit"),
        ("sandbur completion fish > ~/.config/fish/completions/sandbur.fish", "once"),
    )
    shell: str = word("|".join(_SCRIPTS), "the shell", type=one_of(tuple(_SCRIPTS)))

    async def run(self) -> int:
        # The command runs in untrusted folders; with `-P` Python imports nothing from there.
        put(script(self.shell, f"{shlex.quote(sys.executable)} -P -m sandbur.ui.cli.main _complete"))
        return 0


def script(shell: str, ask: str = "command sandbur _complete") -> str:
    """Return the script for a shell; `ask` is the command that prints the candidates.

    By default it is the command on the `PATH`, as in the files that a wheel installs.
    """
    return _SCRIPTS[shell].replace("ASK", ask)
