"""Functions as tools whose arguments are checked against a schema that somebody else wrote."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from sandbur.actions.ports import ToolSpec
from sandbur.actions.tools.functions.callee import parameters_of
from sandbur.actions.tools.functions.function_tool import FunctionTool
from sandbur.actions.tools.functions.parameters import Callee, FunctionReading, ToolOptions
from sandbur.actions.tools.functions.schemas.schema_tool import SchemaArguments, usable_name, usual
from sandbur.state.errors import UsageError


def tool_from_schema(
    schema: Mapping[str, Any], function: Callable[..., Any], options: ToolOptions
) -> FunctionTool[..., Any]:
    """Return a tool whose arguments are checked against a schema; `function` gets them as one dict.

    `function` may take injected parameters and a `RunContext`, too. The name becomes one that models can
    call. Raises `UsageError` for a schema that is none, or not of an object.
    """
    return _SchemaTool(schema, function, options)


class _SchemaTool(FunctionTool[..., Any]):
    def __init__(self, schema: Mapping[str, Any], function: Callable[..., Any], options: ToolOptions) -> None:
        self._schema = schema
        super().__init__(function, options, {})

    def _read(self) -> FunctionReading:
        options = self._options
        what = f"The tool {options.name}"
        parameters = parameters_of(self._function, what)
        takes = [one.name for one in parameters if one.role == "argument"]
        if len(takes) != 1:
            raise UsageError(f"{what}: its function has to take one argument, the dict that a model gives.")
        schema = usual(self._schema, what)
        return FunctionReading(
            spec=ToolSpec(usable_name(options.name), options.description, schema),
            arguments=cast(Any, SchemaArguments(schema, what, takes[0])),
            callee=Callee(self._function, what, parameters),
            check=None,
            subject=options.traits.subject,
            traits=options.traits,
        )
