"""The package `agentdojo` for the suite `injection`, without the clients of models that it depends on."""

import sys
from pathlib import Path

from support.places import ROOT
from support.required import lacks

FOLDER = Path(sys.prefix, "agentdojo")
CLIENTS = Path(__file__).with_name("model_clients")
"""Modules of the names of clients that the package imports and the suite never calls."""


def python_path() -> str:
    """Return a PYTHONPATH with the package; if it is missing, skip the test, in CI fail the test."""
    if not (FOLDER / "agentdojo").is_dir():
        lacks("agentdojo is not here: tests/run installs it.")
    return f"{ROOT}:{FOLDER}:{CLIENTS}"
