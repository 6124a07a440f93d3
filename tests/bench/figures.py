"""How a figure is told: what was measured, what it is a ratio to, and the limit that it is held to."""

import os

# Commands are measured with their modules compiled, as everybody has them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def tell(what: str, value: float, limit: float, unit: str = "", against: str = "") -> bool:
    """Print one figure with its limit, all in `unit`; return whether it keeps it."""
    is_kept = value <= limit
    figure = f"{value:,.2f}{unit}" if value < 1000 else f"{value:,.0f}{unit}"
    most = f"{limit:g}{unit}" if limit < 1000 else f"{limit:,.0f}{unit}"
    told = f" of {against}" if against else ""
    print(f"{what:<58} {figure:>12}{told}  (limit {most}: {'kept' if is_kept else 'MISSED'})", flush=True)
    return is_kept
