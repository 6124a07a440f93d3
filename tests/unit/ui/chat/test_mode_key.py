"""The modes through which Shift-Tab passes."""

from pathlib import Path

import pytest
from support.screens.slash_desk import environment, slash_desk

from sandbur.agent.config.data_folder import acknowledge
from sandbur.ui.chat.current_session import CurrentSession

THREE = ["plan", "auto-edit", "interactive"]
FOUR = ["plan", "auto-edit", "yolo", "interactive"]


@pytest.fixture(autouse=True)
def knows_yolo(tmp_path: Path) -> None:
    acknowledge(Path(environment(tmp_path)["SANDBUR_HOME"]))


def press_through(current: CurrentSession) -> list[str]:
    """Return the modes after each press, in the order that begins after `interactive`."""
    modes: list[str] = []
    for _ in range(8):
        current.change_mode()
        modes.append(current.session.state.execution_mode)
    first = modes.index("interactive") + 1
    return modes[first : modes.index("interactive", first) + 1]


async def test_the_key_passes_through_yolo_only_where_it_was_consented_to_in_this_session(
    tmp_path: Path,
) -> None:
    async with slash_desk(tmp_path) as desk:
        current = CurrentSession(desk.runtime)
        current.set(desk.session)
        assert press_through(current) == THREE
        await desk.type("/mode yolo")
        current.note_mode()
        await desk.type("/mode plan")
        current.note_mode()
        assert press_through(current) == FOUR
        current.set(await desk.runtime.create())
        assert press_through(current) == THREE


async def test_the_key_passes_through_yolo_in_a_session_that_began_in_it(tmp_path: Path) -> None:
    async with slash_desk(tmp_path, mode="yolo") as desk:
        current = CurrentSession(desk.runtime)
        current.set(desk.session)
        assert press_through(current) == FOUR
