"""Agentdojo imports this client of a model with its pipelines. The suite `injection` calls no model by it."""

from . import errors, types

__all__ = ["Client", "errors", "types"]


class Client:
    """No client."""
