"""The base of the built-in tools: a pydantic model describes the arguments, and traits name its fields."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from ...state.calls import Effect
from ..ports import ToolTraits
from .schema import ToolArguments, parse_arguments, spec_of

ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


class BuiltinTool(Generic[ArgumentsT]):
    """The base of the built-in tools. By default, the effect is `read` and the argument `path` names the
    path.

    A tool whose results contain names or contents of files must set `traits.shows`. Without it, rules that
    deny reading a file do not apply to the tool.
    """

    effect: Effect = "read"
    traits = ToolTraits(subject="path", is_quiet=True)

    def __init__(self, name: str, description: str, arguments: type[ArgumentsT]) -> None:
        self.spec = spec_of(name, description, arguments)
        self._arguments = arguments

    def parse(self, arguments: str) -> ArgumentsT:
        return parse_arguments(self.spec, self._arguments, arguments)

    def effect_of(self, arguments: ArgumentsT) -> Effect:
        return self.effect

    def subject(self, arguments: ArgumentsT) -> str:
        return getattr(arguments, self.traits.subject)

    def paths(self, arguments: Any) -> Sequence[str]:
        return (arguments.path,) if "path" in self._arguments.model_fields else ()
