"""Sandbur in evaluations of harbor: `harbor run --agent sandbur.harbor:SandburAgent`.

    harbor run --agent sandbur.harbor:SandburAgent --agent-kwarg package=sandbur.whl -m PROVIDER/MODEL ...

The class is no part of the evaluations of Sandbur itself: harbor starts the containers and checks the work.

This file is the module `sandbur.harbor`. In an installed package it is beside `sandbur/__init__.py`; in the
sources, `sandbur.py` adds this folder to its path. Imports are relative to the package `sandbur`. It needs
the package `harbor` and Python 3.12.
"""

try:
    import harbor
except ImportError as error:
    raise ImportError(
        "sandbur.harbor needs the package harbor. Install it on Python 3.12 or newer: pip install harbor"
    ) from error

from .agent.review.evaluation.adapters.harbor_agent import SandburAgent

__all__ = ["SandburAgent", "harbor"]
