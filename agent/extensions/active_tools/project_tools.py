"""The Python files of a project's `.sandbur/tools`, which a person trusts before they run."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from ....state.errors import ConfigError
from ....state.lazy_dataclass import dataclass
from ...config.load import TOOLS_FOLDER
from ...config.paths import project_folders, read_whole
from ...config.trust import is_trusted_place, trust_place

_MOST_FILES = 50
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ProjectTools:
    """The Python files of a project's `.sandbur/tools`, with the content that was read. Exactly the trusted
    content runs."""

    folder: Path
    files: Mapping[str, bytes]
    """Name -> content, in the order in which they are run."""

    @property
    def digest(self) -> bytes:
        parts = (f"{name} {hashlib.sha256(content).hexdigest()}\n" for name, content in self.files.items())
        return "".join(parts).encode()

    def is_trusted(self, env: Mapping[str, str]) -> bool:
        return is_trusted_place(self.folder, self.digest, env)

    def trust(self, env: Mapping[str, str]) -> None:
        """Trust exactly these files until one of them changes."""
        trust_place(self.folder, self.digest, env)


def project_tools(cwd: Path) -> ProjectTools | None:
    """Return the files of the nearest `.sandbur/tools`, from `cwd` up to the root of the repository.

    Return None if there are none.
    """
    for parent in project_folders(cwd):
        folder = parent / TOOLS_FOLDER
        names = sorted(path.name for path in folder.glob("*.py")) if folder.is_dir() else []
        if names:
            if len(names) > _MOST_FILES:
                raise ConfigError(f"{folder} has {len(names)} files; the limit is {_MOST_FILES}.")
            return ProjectTools(folder, {name: _content(folder / name) for name in names})
    return None


def _content(path: Path) -> bytes:
    content = read_whole(path, _MOST_BYTES, os.O_NOFOLLOW)
    if content is None:
        raise ConfigError(f"{path} cannot be read.", "Make it a regular file of the project.")
    return content
