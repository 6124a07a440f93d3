"""The build hook: adds `sandbur.py` to the wheel as `sandbur/__init__.py`."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FaceHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable install imports `sandbur.py` from the checkout; a copy in site-packages would hide it.
        if version == "standard":
            build_data["force_include"]["sandbur.py"] = "sandbur/__init__.py"
            build_data["force_include"]["agent/sdk/testing/public/testing.py"] = "sandbur/testing.py"
            build_data["force_include"]["ui/__main__.py"] = "sandbur/__main__.py"
            build_data["force_include"]["state/py.typed"] = "sandbur/py.typed"
        elif version == "editable":
            link_package(Path(self.root))


def link_package(root: Path) -> None:
    """Make a folder `.editable/sandbur` of links to the sources, because type checkers need a package folder.

    The folder comes after the sources in the search path, so that programs do not import it.
    """
    package = root / ".editable" / "sandbur"
    package.mkdir(parents=True, exist_ok=True)
    names = {name: name for name in ("agent", "actions", "state", "ui")}
    names |= {
        "__init__.py": "sandbur.py",
        "testing.py": "agent/sdk/testing/public/testing.py",
        "py.typed": "state/py.typed",
    }
    for name, source in names.items():
        link = package / name
        link.unlink(missing_ok=True)
        link.symlink_to(Path("..", "..", source))
