"""Puts the public face into the wheel as the package `sandbur`."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FaceHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable install takes `sandbur.py` as it lies there: a copy in site-packages would win over it.
        if version == "standard":
            build_data["force_include"]["sandbur.py"] = "sandbur/__init__.py"
            build_data["force_include"]["agent/testing/public/testing.py"] = "sandbur/testing.py"
            build_data["force_include"]["ui/__main__.py"] = "sandbur/__main__.py"
            build_data["force_include"]["state/py.typed"] = "sandbur/py.typed"
