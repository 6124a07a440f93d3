"""Says which environment variables make a program start another one."""

import re

_NAMES_PROGRAM = re.compile(
    r"\w*(?:PAGER|EDITOR|BROWSER|ASKPASS|_RSH|_SSH|_COMMAND|_CMD|EXTERNAL_DIFF|WRAPPER|RUNNER|LINKER|HELPER"
    r"|CONNECT_PROG)|SHELL|VISUAL|FCEDIT|LESSOPEN|LESSCLOSE|LESS|CC|CXX|RUSTC|npm_config_script_shell"
    r"|GIT_CONFIG_VALUE_\d+"
)
"""The names of variables whose value is a program or a command of the shell."""
_EVALUATED = re.compile(r"\$\(|`")
"""What the shell runs if it evaluates the value once more, such as in `PS4` or as a number."""
STARTING_PROGRAMS = {
    "BASH_ENV": "", "ENV": r"/", "LD_PRELOAD": "", "LD_AUDIT": "", "DYLD_INSERT_LIBRARIES": "",
    "PERL5OPT": "-[mMdI]", "PERL5DB": "", "RUBYOPT": "-[rI]", "PYTHONSTARTUP": "", "PYTHONBREAKPOINT": r"\.",
    "NODE_OPTIONS": r"-r|--require|--import|--loader", "JAVA_TOOL_OPTIONS": "agent", "GOFLAGS": "exec",
    "MAKEFLAGS": r"eval|\$\(|=", "TAR_OPTIONS": r"command|action|program|script|-[a-zA-Z]*[IF]",
    "GIT_CONFIG_PARAMETERS": "", "GIT_CONFIG_COUNT": "", "GIT_CONFIG_GLOBAL": "", "GIT_EXEC_PATH": "",
    "RIPGREP_CONFIG_PATH": "",
}  # fmt: skip
"""Variable -> the expression for values that make programs run others or load code."""


def find_text_of_variable(name: str, value: str) -> str | None:
    """Return the command that a program may run because of a variable, or None."""
    if _NAMES_PROGRAM.fullmatch(name):
        return value.lstrip("|!+-: ")
    return value if _EVALUATED.search(value) else None


def makes_programs_run(name: str, value: str) -> bool:
    """Return whether a variable makes programs load code that its value does not show."""
    values = STARTING_PROGRAMS.get(name)
    return values is not None and bool(value) and re.search(values, value) is not None
