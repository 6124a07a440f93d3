"""The wheel, and environments that it is installed in."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from support.places import ROOT


@pytest.fixture(scope="package")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as a release has it; built by the installed hatchling, so that nothing is downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    code = f"import hatchling.build; print(hatchling.build.build_wheel({str(folder)!r}))"
    built = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return folder / built.stdout.splitlines()[-1]


@pytest.fixture(scope="package")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it, and with this environment's other packages."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    line = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        str(folder / "bin" / "python"),
    ]
    subprocess.run([*line, "install", "--no-deps", "--no-index", "--quiet", str(wheel)], check=True)
    # Dependencies come from here, but not what this environment says about the checkout.
    for path in Path(next(p for p in sys.path if p.endswith("site-packages"))).iterdir():
        if "sandbur" not in path.name and not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    return folder
