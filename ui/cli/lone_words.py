"""Recognizes a single word that sounds like a command: as a message to a model it would only cost money."""

from ...state.errors import UsageError
from ..chat.slash.table import COMMANDS as SLASH_COMMANDS
from ..chat.slash.table import find
from ..terminal.line_question import confirm
from ..terminal.terminal import is_interactive
from ..terminal.text.sanitize import one_line
from .argument_types import nearest
from .grammar import COMMANDS, command_class

_MOST_NAMED = 3
_LOGIN = "Set ANTHROPIC_API_KEY, OPENAI_API_KEY or the key of another provider, or start Ollama."
_NO_CHAT = 'To run without a chat: sandbur -p "..."'
_GO_ON = "To go on with a session: sandbur -c, or sandbur -r ID."
_LIST = "To list the sessions: sandbur sessions list."
INSTEAD = {
    "init": "A folder needs no setup; Sandbur reads an AGENTS.md in it.",
    "exec": _NO_CHAT,
    "run": _NO_CHAT,
    "ask": _NO_CHAT,
    "login": _LOGIN,
    "auth": _LOGIN,
    "setup-token": _LOGIN,
    "logout": "Keys are in the environment: unset ANTHROPIC_API_KEY or the key that is set.",
    "models": "Name one with -m PROVIDER/MODEL; `sandbur doctor` says which is used.",
    "upgrade": "`sandbur update` prints the command that installs a newer version.",
    "install": "`sandbur update` prints the command that installs a newer version.",
    "uninstall": "Use the program that installed it, such as pipx or uv.",
    "continue": _GO_ON,
    "restart": _GO_ON,
    "session": _LIST,
    "history": _LIST,
    "ls": _LIST,
    "chat": "`sandbur` alone begins a chat.",
    "start": "`sandbur` alone begins a chat.",
    "web": "`sandbur serve` has the chat in a browser, `sandbur ui` the runs.",
    "server": "`sandbur serve` has the chat in a browser, `sandbur ui` the runs.",
    "apply-patch": "To apply what a trial changed: sandbur try apply.",
    "plugin": "`sandbur doctor` lists the extensions.",
    "extensions": "`sandbur doctor` lists the extensions.",
    "settings": "`sandbur config list` lists the settings.",
}
"""Commands of other agents -> what Sandbur has instead."""
_TRANSLATED = {
    "help": (
        "帮助",
        "说明",
        "用法",
        "hilfe",
        "aide",
        "ayuda",
        "ajuda",
        "aiuto",
        "помощь",
        "ヘルプ",
        "도움말",
    ),
    "continue": (
        "继续",
        "接着",
        "恢复",
        "weiter",
        "fortsetzen",
        "continuer",
        "reprendre",
        "continuar",
        "続行",
    ),
    "undo": ("撤销", "撤回", "回退", "取消", "rückgängig", "annuler", "deshacer", "desfazer"),
    "apply": ("应用", "anwenden", "appliquer", "aplicar"),
    "login": ("登录", "登入", "anmelden", "connexion"),
    "logout": ("登出", "注销", "abmelden"),
    "exit": ("退出", "离开", "结束", "beenden", "quitter", "salir", "sair"),
    "list": ("列表", "会话", "liste", "lista"),
    "history": ("历史", "verlauf", "historique", "historial"),
    "status": ("状态", "estado"),
    "settings": ("设置", "配置", "einstellungen", "paramètres"),
    "update": ("更新", "升级", "aktualisieren"),
    "version": ("版本",),
    "models": ("模型",),
    "compact": ("压缩",),
    "clear": ("清空", "清除"),
}
_MEANT = {word: name for name, words in _TRANSLATED.items() for word in words}
"""A word of another language -> the English word of a command."""


def require_message(word: str) -> None:
    """Raise `UsageError` for a word that sounds like a command, unless a person says that it is a message."""
    meant = find_meant(word)
    if meant is None:
        return
    unknown = f"There is no command `{word}`."
    if is_interactive() and confirm(one_line(f"{unknown} {meant} Send `{word}` to the model as a message?")):
        return
    raise UsageError(unknown, f"{meant} As a message: sandbur -- {word}")


def find_meant(word: str) -> str | None:
    """Return a sentence with what a person probably meant by a word that is no command; None if it sounds
    like none."""
    name = word.lower().removeprefix("/")
    name = _MEANT.get(name, name)
    if name in ("help", "version", "update"):
        return f"Did you mean `sandbur {name}`?"
    if name in INSTEAD:
        return INSTEAD[name]
    ways = _list_ways(name)
    if not ways:
        slash = (typed for one in SLASH_COMMANDS for typed in (one.name, *one.aliases))
        known = [*COMMANDS, "help", "version", *INSTEAD, *_list_words(), *slash]
        near = nearest(name, known) or nearest(name, _list_actions(), 0.8)
        if near in ("help", "version"):
            return find_meant(near)
        if near in INSTEAD:
            return INSTEAD[near]
        ways = [f"`{near}`"] if near in COMMANDS else _list_ways(near or "")
    return f"Did you mean {' or '.join(ways)}?" if ways else None


def _list_words() -> list[str]:
    return [word for command in COMMANDS for word in command_class(command).WORDS]


def _list_actions() -> list[str]:
    return [action for command in COMMANDS for action in command_class(command).ACTIONS]


def _list_ways(name: str) -> list[str]:
    """Return the commands with an action of this name, and the slash command, each in code quotes."""
    found = [f"`sandbur {command} {name}`" for command in COMMANDS if name in command_class(command).WORDS]
    found += [f"`sandbur {command} {name}`" for command in COMMANDS if name in command_class(command).ACTIONS]
    slash = find(name)
    return [*found[:_MOST_NAMED], *([f"`/{slash.name}` in a chat"] if slash else [])]
