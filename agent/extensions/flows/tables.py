"""Flows as configuration tables, and descriptions of them for a person who must decide whether to
trust them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ....actions.turn.flows.flow import Flow
from ....state.errors import ConfigError, SandburError, UsageError
from ....state.lazy_dataclass import dataclass
from ...config.setting_reader import SettingReader, SettingValue, merge_tables
from .flow_tools import check_request

_Line = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
_Texts = _Line | Annotated[list[_Line], Field(min_length=1, max_length=50)]
_Text = Annotated[str, StringConstraints(max_length=100_000)]
MOST_FLOWS = 200


class FlowTable(BaseModel):
    """One flow of a file; its keys are those of `sandbur.Flow` without Python functions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    exact: _Texts = ""
    prefix: _Texts = ""
    phrase: _Texts = ""
    regex: _Texts = ""
    priority: int = 0
    description: _Text = ""
    reply: _Text = ""
    tool: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    agent: str = ""
    prompt: _Text = ""
    http: dict[str, Any] | None = None
    command: str = ""
    instructions: _Text = ""
    plan: list[_Line] = Field(default_factory=list)
    goal: _Text = ""
    answer: _Text = ""
    on_failure: Literal["reply", "model"] = "reply"
    failure: _Text = ""


@dataclass(frozen=True, slots=True)
class ConfiguredFlow:
    """A flow and the file that sets it."""

    flow: Flow
    source: str


def read_flow(name: str, given: Any, source: str, error: type[SandburError] = ConfigError) -> Flow:
    """Return the flow of a table; raises `error` with the source and the key."""
    where = f"{source}: `flows.{str(name)[:64]}`"
    if not isinstance(given, dict):
        raise error(f"{where} is not a table.", "Write a table with its keys.")
    try:
        table = FlowTable.model_validate(given)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        hint = f"The keys are: {', '.join(FlowTable.model_fields)}."
        raise error(f"{where} does not fit: `{key}`: {first['msg']}.", hint) from None
    values = {key: value for key, value in table if value not in ("", [], None)}
    try:
        made = Flow(str(name), **values)
    except UsageError as problem:
        raise error(f"{where}: {problem.message}", problem.hint) from None
    check_request(made, source)
    return made


class FlowsReader(SettingReader):
    """Reads `flows`."""

    def check(self, value: Any, source: str, error: type[SandburError]) -> dict[str, Flow]:
        tables = cast("Mapping[str, Any]", value)
        if len(tables) > MOST_FLOWS:
            raise error(f"{source}: `flows` has more than {MOST_FLOWS} flows.", "Take some out.")
        return {name: read_flow(name, table, source, error) for name, table in tables.items()}

    def resolve(self, values: Sequence[SettingValue]) -> dict[str, ConfiguredFlow]:
        return {name: ConfiguredFlow(one.value, one.source) for name, one in merge_tables(values).items()}

    def disclose(self, value: Mapping[str, Flow]) -> Iterator[str]:
        for name, flow in value.items():
            triggers = " or ".join(flow.triggers.describe())
            yield f"{flow.describe()} without asking the model, on {triggers} (flow {name})"
