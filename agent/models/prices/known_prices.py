"""Caches the prices of single models in a file, because loading the catalogue takes 100 ms of processor
time."""

import importlib.util
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from ....actions.workspace.content_cache import write_whole
from ...config.sources import Price
from .pricing import PriceOf, constant_price, make_pricer, price_of

FILE = "prices.json"
_MOST_MODELS = 200


def find_price(model: str, overrides: Mapping[str, Price], home: Path) -> PriceOf | None:
    """Return the same as `price_of`, but load the catalogue only if the file lacks the model.

    A price that depends on more than token counts comes from the catalogue each time.
    """
    if model in overrides or model == "demo":
        return price_of(model, overrides)
    catalogue = _identity_of_catalogue()
    known = _read(home / FILE, catalogue)
    if model in known:
        with suppress(ValidationError):
            return None if known[model] is None else make_pricer(Price.model_validate(known[model]))
    found = price_of(model, overrides)
    constant = constant_price(model) if found is not None else None
    if found is None or constant is not None:
        kept = None if constant is None else constant.model_dump()
        newest = list({**known, model: kept}.items())[-_MOST_MODELS:]
        _write(home / FILE, {"catalogue": catalogue, "models": dict(newest)})
    return found


def _identity_of_catalogue() -> str:
    """Return a text that changes with the installed catalogue, without importing the catalogue."""
    spec = importlib.util.find_spec("genai_prices")
    if spec is None or spec.origin is None:
        return ""
    status = Path(spec.origin).with_name("data.py").stat()
    return f"{status.st_size}-{status.st_mtime_ns}"


def _read(path: Path, catalogue: str) -> dict[str, Any]:
    """Return the prices in the file; an empty mapping if it is unreadable or from another catalogue."""
    try:
        found: Any = json.loads(path.read_bytes())
        models: Any = found["models"] if found["catalogue"] == catalogue else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return {}
    return cast(dict[str, Any], models) if isinstance(models, dict) else {}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the file atomically; if that fails, the next process loads the catalogue again."""
    with suppress(OSError):
        write_whole(path, json.dumps(content).encode())
