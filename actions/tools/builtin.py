"""The base of the built-in tools: arguments as a pydantic model, and traits that name its fields."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from ...state.calls import Effect, FileChange
from ..masking.masker import TextMasker
from ..masking.references import fill_placeholders, find_placeholder
from ..ports import Prepared, ToolContext, ToolOutcome, ToolTraits, Verified
from ..workspace.paths import locate, make_absolute
from ..workspace.safe_open import PathScope
from ..workspace.text import load_text
from .files.disk import prepare_in_thread, verify_write, write_planned
from .schema import ToolArguments, parse_arguments, spec_of

ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


class BuiltinTool(Generic[ArgumentsT]):
    """A tool that only reads below its argument `path`, if it has one, unless its traits differ."""

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


class WritingTool(BuiltinTool[ArgumentsT]):
    """A tool whose complete effect is planned before it happens and can be verified afterwards."""

    effect: Effect = "verifiable"
    plan: Callable[[Any, Path, PathScope], Prepared]
    """Returns the changes that the arguments make below a folder, within a reach; raises `FileProblem`."""

    async def prepare(self, arguments: ArgumentsT, context: ToolContext) -> Prepared | ToolOutcome:

        def plan() -> Prepared:
            return self.plan(self._fill_secrets(arguments, context), context.cwd, context.reach)

        return await prepare_in_thread(plan)

    def _fill_secrets(self, arguments: ArgumentsT, context: ToolContext) -> ArgumentsT:
        """Return the arguments with the secrets that their placeholders stand for."""
        texts = {name: str(getattr(arguments, name)) for name in self.traits.references}
        if not any(find_placeholder(text) for text in texts.values()):
            return arguments
        target = locate(
            make_absolute(self.subject(arguments), context.cwd), context.reach, "read", is_new=True
        )
        old = load_text(target) if target.is_file() else None
        there = "" if old is None else old.text if old.text is not None else old.content.decode("latin-1")
        masker = context.masker or TextMasker()
        whole = {name: fill_placeholders(name, text, there, masker) for name, text in texts.items()}
        return arguments.model_copy(update=whole)

    async def run(self, arguments: ArgumentsT, context: ToolContext) -> ToolOutcome:
        return await write_planned(context.prepared or await self.prepare(arguments, context))

    async def verify(self, changes: Sequence[FileChange]) -> Verified:
        return await verify_write(changes)
