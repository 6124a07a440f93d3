"""Runs one test over all rows of a table, because a separate test for each row would take longer."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any


def for_each(name: str, rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test function with each row as the argument `name`; report all rows that fail."""
    rows = list(rows)

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        def over_all(**fixtures: Any) -> None:
            failures: list[str] = []
            for row in rows:
                try:
                    test(**fixtures, **{name: row})
                except AssertionError as error:
                    failures.append(f"{name} = {row!r}: {error}")
            assert not failures, "\n\n".join(failures)
            assert rows, f"no {name}"

        over_all.__name__, over_all.__doc__ = test.__name__, test.__doc__
        signature = inspect.signature(test)
        left = [one for one in signature.parameters.values() if one.name != name]
        over_all.__signature__ = signature.replace(parameters=left)  # pyright: ignore
        return over_all

    return decorated
