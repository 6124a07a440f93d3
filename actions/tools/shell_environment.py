"""The environment of a shell command: nothing that waits for a person, no key of the agent's own."""

from collections.abc import Mapping

CALL_VARIABLE = "SANDBUR_CALL"
"""Set in every process of a call, so that they can be found when their supervisor was killed."""

_SETTINGS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "AWS_PAGER": "",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "SSH_ASKPASS_REQUIRE": "never",
    "PYTHONUNBUFFERED": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
}
_PROVIDERS = (
    "OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "GOOGLE_GENERATIVE_AI", "DEEPSEEK", "DASHSCOPE", "OPENROUTER",
    "OLLAMA", "MISTRAL", "GROQ", "XAI", "TOGETHER", "FIREWORKS", "COHERE", "CO", "PERPLEXITY", "CEREBRAS",
    "MOONSHOT", "ZHIPUAI", "ZAI", "MINIMAX", "NVIDIA", "AZURE_OPENAI", "SILICONFLOW", "VOYAGE",
)  # fmt: skip
_SECRETS = frozenset(
    {f"{provider}_API_KEY" for provider in _PROVIDERS}
    | {"ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_ADMIN_KEY", "AWS_BEARER_TOKEN_BEDROCK"}
)
_COLOURS = frozenset({"FORCE_COLOR", "CLICOLOR_FORCE", "COLORTERM"})


def shell_environment(outer: Mapping[str, str], call: str) -> dict[str, str]:
    """Return what a command sees of the `outer` environment; `call` marks its processes."""
    kept = {
        name: value
        for name, value in outer.items()
        if name not in _SECRETS and name not in _COLOURS and not name.startswith("SANDBUR_")
    }
    return {**kept, **_SETTINGS, CALL_VARIABLE: call}
