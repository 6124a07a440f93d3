"""Sandbur in evaluations of inspect: `from sandbur.inspect import sandbur_agent`.

    sandbur_agent(...)    an agent of inspect that runs a Sandbur agent
    sandbur_solver(...)   the same as a solver
    sandbur_suite(...)    a suite of Sandbur as a task of inspect

This file is the module `sandbur.inspect`. In an installed package it is beside `sandbur/__init__.py`; in the
sources, `sandbur.py` adds this folder to its path. Imports are relative to the package `sandbur`. It needs
the package `inspect-ai`.
"""

try:
    import inspect_ai
except ImportError as error:
    raise ImportError(
        "sandbur.inspect needs the package inspect-ai. Install it: pip install 'inspect-ai>=0.3.285,<0.4'"
    ) from error

from .agent.review.evaluation.adapters.inspect_agent import sandbur_agent, sandbur_solver
from .agent.review.evaluation.adapters.inspect_suite import sandbur_suite

__all__ = ["inspect_ai", "sandbur_agent", "sandbur_solver", "sandbur_suite"]
