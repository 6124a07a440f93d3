"""The terminal agent you can kill at any moment; what Python programs use of it.

The folders `agent`, `actions`, `state` and `ui` beside this file are its subpackages. Only the names in
`__all__` are public; each is loaded when it is first used.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent.version import VERSION as __version__  # noqa: N811
    from .state.burr.persister import AsyncSandburPersister, SandburPersister

__all__ = ["AsyncSandburPersister", "SandburPersister", "__version__"]

# In an installed package the folders lie beside this file, too: there it is `sandbur/__init__.py`.
__path__ = [str(Path(__file__).parent)]

_HOMES = {
    "AsyncSandburPersister": ("sandbur.state.burr.persister", "AsyncSandburPersister"),
    "SandburPersister": ("sandbur.state.burr.persister", "SandburPersister"),
    "__version__": ("sandbur.agent.version", "VERSION"),
}
"""Public name -> its module and its name there."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = globals()[name] = getattr(import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if __name__ == "__main__":
    import sys

    sys.exit(import_module("sandbur.ui.cli").main())
