"""Measures functions as tools, as ratios to pydantic alone.

1. The schema of a tool, built from its signature: `TypeAdapter` of the same fields is the baseline.
2. A call: `validate_json` of the same arguments and the bare function are the baseline.
"""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

from bench.figures import tell
from pydantic import BaseModel, Field, TypeAdapter, create_model
from support.tools.tool_calls import context

from sandbur import Depends, RunContext, Tool, tool
from sandbur.actions.tools.functions.run_scope import RunScope

ROUNDS = 60
ARGUMENTS = '{"email": "a@b.c", "limit": 5, "home": {"street": "A 1", "city": "B"}, "tags": ["x", "y"]}'
MOST_SCHEMA_MS, MOST_CALL_MS = 2.0, 0.1


class Address(BaseModel):
    street: str
    city: str = "Berlin"


async def get_db() -> str:
    return "db"


async def find(
    email: str,
    limit: Annotated[int, Field(ge=1)] = 10,
    home: Address | None = None,
    tags: list[str] = [],  # noqa: B006
    order: Literal["up", "down"] = "up",
) -> str:
    """Look a customer up.

    Args:
        email: the address they signed up with
        limit: how many
    """
    return email


async def find_injected(
    email: str,
    run: RunContext,
    db: Annotated[str, Depends(get_db)],
    limit: int = 10,
    home: Address | None = None,
    tags: list[str] = [],  # noqa: B006
) -> str:
    return email


def find_blocking(email: str, limit: int = 10, home: Address | None = None, tags: list[str] = []) -> str:  # noqa: B006
    return email


def milliseconds(work: Callable[[], Any], rounds: int) -> float:
    work()
    times: list[float] = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return median(times) * 1000


async def per_call(tool_of: Any, calls: int, scope: RunScope | None = None) -> float:
    """Return the milliseconds from the model's text to the result."""
    within = context(scope=scope)
    times: list[float] = []
    for _ in range(calls):
        began = time.perf_counter()
        await tool_of.run(tool_of.parse(ARGUMENTS), within)
        times.append(time.perf_counter() - began)
    return median(times) * 1000


class Fields(BaseModel):
    email: str
    limit: Annotated[int, Field(ge=1)] = 10
    home: Address | None = None
    tags: list[str] = []
    order: Literal["up", "down"] = "up"


def plain_schema() -> Any:
    fields = {name: (one.annotation, one) for name, one in Fields.model_fields.items()}
    kind: Any = create_model("Plain", **fields)  # pyright: ignore
    return TypeAdapter(kind).json_schema()


async def measure(_: Path, calls: int) -> None:
    built, plain = milliseconds(lambda: tool(find), ROUNDS), milliseconds(plain_schema, ROUNDS)
    print(f"schema of a tool: {built / plain:.2f} x pydantic alone")
    tell("schema of a tool, built", built, MOST_SCHEMA_MS, " ms")
    adapter: Any = TypeAdapter(Fields)
    bare = milliseconds(lambda: [adapter.validate_json(ARGUMENTS) for _ in range(100)], calls) / 100
    schema = tool(find).spec.parameters
    kinds = {
        "async function": (tool(find), None),
        "injected": (tool(find_injected), RunScope()),
        "function in a thread": (tool(find_blocking), None),
        "JSON schema": (Tool.from_schema("find", schema, lambda_of), None),
    }
    for name, (made, scope) in kinds.items():
        took = await per_call(made, calls, scope)
        print(f"call, {name}: {took:.3f} ms, {took / bare:.0f} x validate_json alone")
        tell(f"call of a tool, {name}", took, MOST_CALL_MS, " ms")


async def lambda_of(arguments: dict[str, Any]) -> str:
    return arguments["email"]
