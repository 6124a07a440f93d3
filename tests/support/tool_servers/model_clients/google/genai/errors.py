"""Agentdojo imports this client of a model with its pipelines. The suite `injection` calls no model by it."""


def __getattr__(name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (Exception,), {})
