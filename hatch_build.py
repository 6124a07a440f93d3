"""The build hook: adds `sandbur.py`, public modules, the man page and completion scripts to the wheel."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PUBLIC = {
    "testing.py": "agent/sdk/testing/public/testing.py",
    "inspect.py": "agent/review/evaluation/adapters/public/inspect.py",
    "harbor.py": "agent/review/evaluation/adapters/public/harbor.py",
}
"""The public modules of the package -> where they are in the sources."""
SHARED = {
    "share/man/man1/sandbur.1": "manual.man_page(tuple(manual.sections()))",
    "share/bash-completion/completions/sandbur": "scripts.script('bash')",
    "share/zsh/site-functions/_sandbur": "scripts.script('zsh')",
    "share/fish/vendor_completions.d/sandbur.fish": "scripts.script('fish')",
}
"""The files that a wheel installs outside of the package -> the expression that returns their text."""
_WRITE = """
import sys
sys.path.insert(0, sys.argv[1])
from sandbur.ui.commands.setup import manual
from sandbur.ui.commands.setup.completion import scripts
sys.stdout.buffer.write((EXPRESSION + "\\n").encode())
"""


class FaceHook(BuildHookInterface[Any]):
    _folder: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable install imports `sandbur.py` from the checkout; a copy in site-packages would hide it.
        if version == "standard":
            build_data["force_include"]["sandbur.py"] = "sandbur/__init__.py"
            for name, source in PUBLIC.items():
                build_data["force_include"][source] = f"sandbur/{name}"
            build_data["force_include"]["ui/__main__.py"] = "sandbur/__main__.py"
            build_data["force_include"]["state/py.typed"] = "sandbur/py.typed"
            self._folder = TemporaryDirectory(prefix="sandbur-build-")
            build_data["shared_data"] |= write_shared(Path(self.root), Path(self._folder.name))
        elif version == "editable":
            link_package(Path(self.root))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._folder is not None:
            self._folder.cleanup()


def write_shared(root: Path, folder: Path) -> dict[str, str]:
    """Write the files of `SHARED` into a folder; return their paths there -> where a wheel installs them.

    The sources that print them import no other package, so that an isolated build has all it needs.
    """
    written: dict[str, str] = {}
    for target, expression in SHARED.items():
        # Installed packages could add commands, and colours would depend on the terminal.
        line = [sys.executable, "-ISB", "-c", _WRITE.replace("EXPRESSION", expression), str(root)]
        env = {**os.environ, "NO_COLOR": "1"}
        text = subprocess.run(line, stdout=subprocess.PIPE, check=True, env=env).stdout
        path = folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        written[str(path)] = target
    return written


def link_package(root: Path) -> None:
    """Make a folder `.editable/sandbur` of links to the sources, because type checkers need a package folder.

    The folder comes after the sources in the search path, so that programs do not import it.
    """
    package = root / ".editable" / "sandbur"
    package.mkdir(parents=True, exist_ok=True)
    names = {name: name for name in ("agent", "actions", "state", "ui")}
    names |= PUBLIC | {
        "__init__.py": "sandbur.py",
        "py.typed": "state/py.typed",
    }
    for name, source in names.items():
        link = package / name
        link.unlink(missing_ok=True)
        link.symlink_to(Path("..", "..", source))
