"""A regular expression that is compiled at its first use, so that the start of the program stays fast."""

import re
from functools import cached_property
from typing import AnyStr, Generic


class LatePattern(Generic[AnyStr]):
    """A replacement for `re.compile` for patterns that many sessions never use.

    The methods of the compiled pattern are stored at the first use, so that later uses cost nothing more.
    """

    def __init__(self, pattern: AnyStr, flags: int = 0) -> None:
        self.pattern = pattern
        self.flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[AnyStr]:
        return re.compile(self.pattern, self.flags)

    @cached_property
    def search(self):
        return self.compiled.search

    @cached_property
    def match(self):
        return self.compiled.match

    @cached_property
    def fullmatch(self):
        return self.compiled.fullmatch

    @cached_property
    def finditer(self):
        return self.compiled.finditer

    @cached_property
    def findall(self):
        return self.compiled.findall

    @cached_property
    def sub(self):
        return self.compiled.sub
