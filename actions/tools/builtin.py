"""The base of the built-in tools: arguments as a pydantic model, and traits that name its fields."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from ...state.calls import Effect
from ..ports import ToolTraits
from .schema import ToolArguments, parse_arguments, spec_of

ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


class BuiltinTool(Generic[ArgumentsT]):
    """Base of built-in tools: the effect is `read`, and the place is the argument `path`.

    A tool whose results contain file names or contents sets `traits.shows`; without it, rules that deny the
    reading of a file do not count for it.
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
