"""An empty home folder and project folder for tests that load settings."""

from pathlib import Path
from typing import Any

import pytest

from sandbur.agent.config.load import load_settings
from sandbur.agent.config.settings import Settings
from sandbur.state.errors import SandburError


class Machine:
    """A home folder and a project folder for one test."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.home.mkdir()
        (self.project / ".git").mkdir(parents=True)
        self.env = {"HOME": str(self.home)}

    @property
    def user_config(self) -> Path:
        return self.home / ".config/sandbur/config.toml"

    @property
    def project_config(self) -> Path:
        return self.project / ".sandbur/config.toml"

    def write(self, path: Path, content: str | bytes) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o644)
        return path

    def load(self, **options: Any) -> Settings:
        return load_settings({"cwd": self.project, **options}, self.env)

    def problem(self, **options: Any) -> SandburError:
        with pytest.raises(SandburError) as caught:
            self.load(**options)
        assert "\n" not in str(caught.value)
        return caught.value
