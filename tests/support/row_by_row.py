"""One test over the many rows of a table: a test a row takes longer than the row does."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any


def for_each(name: str, rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for every row, which it takes as the argument `name`; tell all the rows that fail."""
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
