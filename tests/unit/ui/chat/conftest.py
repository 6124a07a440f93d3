"""Fixtures of the tests of the chat."""

from collections.abc import Iterator

import pytest
from prompt_toolkit.input import PipeInput
from support.screens.question_desk import pipe_keys


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    """Lend a pipe whose text arrives as typed keys."""
    with pipe_keys() as pipe:
        yield pipe
