"""The tool `glob`: find files by name."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from actions.ports import ToolContext, ToolOutcome
from actions.tools.arguments import Arguments, PlainText, parsed, spec_of
from actions.tools.files import FileProblem
from actions.tools.matches import capped_lines
from actions.tools.patterns import BadPattern, PathPattern, split_fixed
from actions.tools.places import resolved, shown_from
from actions.tools.ripgrep import find_ripgrep
from actions.tools.search import Search
from actions.tools.search_root import require_folder
from actions.tools.walk import Wanted
from state.calls import Effect

MAX_FILES = 1000

_DESCRIPTION = (
    "Find files by a pattern with *, ?, [...], {a,b} and ** (any folders). A pattern without a slash matches"
    " names at any depth, otherwise the path from the searched folder. Sorted by path. Leaves out what"
    " .gitignore names and, unless the pattern names it, what begins with a dot."
    f" At most {MAX_FILES} files are shown."
)


class GlobArguments(Arguments):
    pattern: PlainText = Field(description="Such as *.py, src/**/test_*.py or *.{yml,yaml}.")
    path: PlainText = Field(".", description="The folder to search. Default: the working folder.")


class Glob:
    effect: Effect = "read"

    def __init__(self, use_ripgrep: bool = True, limit_s: float = 30) -> None:
        self.spec = spec_of("glob", _DESCRIPTION, GlobArguments)
        self._use_ripgrep = use_ripgrep
        self._limit_s = limit_s

    def parse(self, arguments: str) -> GlobArguments:
        return parsed(self.spec, GlobArguments, arguments)

    def effect_of(self, arguments: GlobArguments) -> Effect:
        return self.effect

    def subject(self, arguments: GlobArguments) -> str:
        return arguments.pattern

    def paths(self, arguments: GlobArguments) -> Sequence[str]:
        return (arguments.path,)

    async def run(self, arguments: GlobArguments, context: ToolContext) -> ToolOutcome:
        fixed, rest = _fixed_outside(arguments.pattern)
        root = resolved(arguments.path, context.cwd)
        try:
            root = require_folder(resolved(fixed, root))
            return await self._found(root, PathPattern(rest), context.cwd)
        except (FileProblem, BadPattern) as error:
            return ToolOutcome("error", str(error))

    async def _found(self, root: Path, pattern: PathPattern, cwd: Path) -> ToolOutcome:
        search = Search(root, find_ripgrep() if self._use_ripgrep else None, self._limit_s)
        listing = await search.list_files(Wanted(hidden=pattern.reaches_hidden))
        names = [path for path in listing.paths if pattern.matches(path)]
        lines = capped_lines([shown_from(root / name, cwd) for name in names[:MAX_FILES]])
        notes = [] if names else ["No file matches."]
        if len(names) > len(lines):
            notes.append(f"[{len(lines):,} of {len(names):,} files shown; use a narrower pattern or path]")
        if not listing.is_complete:
            notes.append("[not all folders could be searched in time; use a narrower path]")
        return ToolOutcome("ok", "\n".join(lines + notes))


def _fixed_outside(pattern: str) -> tuple[str, str]:
    """Split off the fixed folders of a pattern that starts elsewhere: at the root, at home, or above."""
    fixed, rest = split_fixed(pattern)
    is_elsewhere = fixed.startswith(("/", "~")) or ".." in fixed.split("/")
    return (fixed, f"./{rest or '**'}") if is_elsewhere else ("", pattern)
