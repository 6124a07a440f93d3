"""The casts show what the program does today, and are pictures that any page can contain."""

import re
import xml.etree.ElementTree as ElementTree

import casts
import pytest
from support.required import require
from support.screens.cast import Cast, Frame, draw_svg, read_asciicast, split_rows, write_asciicast

NAMES = sorted(casts.SCENES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_program_shows_what_the_cast_shows(name: str) -> None:
    require("tmux")
    recorded = casts.read(name)
    assert casts.record(name, expected=recorded) == recorded


@pytest.mark.parametrize("name", NAMES)
def test_the_picture_is_drawn_from_the_recording(name: str) -> None:
    assert (casts.FOLDER / f"{name}.svg").read_text("utf-8") == draw_svg(casts.read(name))


def test_every_recording_has_a_scene() -> None:
    files = {path.name for path in casts.FOLDER.iterdir()}
    assert files == {f"{name}.{kind}" for name in NAMES for kind in ("cast", "svg")}


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_has_no_script_loads_nothing_and_respects_reduced_motion_and_colours(name: str) -> None:
    text = (casts.FOLDER / f"{name}.svg").read_text("utf-8")
    root = ElementTree.fromstring(text)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "title", "style", "rect", "text", "defs", "g", "use"}
    links = re.findall(r'href="([^"]*)"', text)
    assert all(link.startswith("#r") for link in links)
    assert "url(" not in text
    assert "@import" not in text
    assert "@media (prefers-reduced-motion:reduce){.strip{animation:none}}" in text
    assert "@media (prefers-color-scheme:light)" in text
    assert root.get("role") == "img"
    assert root.get("aria-label") == casts.TITLES[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_names_no_folder_and_no_person_of_this_machine(name: str) -> None:
    text = (casts.FOLDER / f"{name}.cast").read_text("utf-8")
    assert "/tmp" not in text
    assert "/root" not in text
    assert "/home" not in text


def test_a_recording_is_read_as_it_was_written() -> None:
    frames = (
        Frame(0.0, ("a", "\x1b[1mb\x1b[0m")),
        Frame(1.5, ("a", "", "c")),
        Frame(2.0, ("a",)),
        Frame(3.0, ("a",)),
    )
    cast = Cast("a title", 20, 4, frames)
    assert read_asciicast(write_asciicast(cast)) == cast


def test_rows_keep_their_own_style_and_text_is_escaped() -> None:
    rows = split_rows("\x1b[1;31mred\nstill <red>\x1b[0m  \nplain\n\n")
    assert rows == ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mstill <red>\x1b[0m", "plain")
    picture = draw_svg(Cast("t", 20, 3, (Frame(0.0, rows),)))
    assert '<text class="b c1" x="0" y="13.5" textLength="92.4">still &lt;red&gt;</text>' in picture
