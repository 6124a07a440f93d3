"""What is shown piece by piece shows what the whole text would, however small the pieces are."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect
from support.samples.secret import FORMATS, PLACES, draw_random

from sandbur.actions.masking.masker import TextMasker
from sandbur.actions.ports.events import ToolOutput
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

MARK = "-----"
KINDS = ("PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK", "EC PRIVATE KEY")
SIZES = (*range(1, 9), 13, 17, 40, 65)


def block(kind: str) -> str:
    body = "\n".join(draw_random(64) for _ in range(6)) + f"\n{draw_random(20)}=="
    return f"{MARK}BEGIN {kind}{MARK}\n{body}\n{MARK}END {kind}{MARK}"


def forms(kind: str) -> Iterator[tuple[str, str]]:
    key = block(kind)
    lines = key.split("\n")
    yield "alone", f"{key}\n"
    yield "without an end", key
    yield "in prose", f"here it is: x\n\n{key}\nafter that\n"
    yield "behind a name", f"key: {key}\nafter\n"
    yield "with returns", key.replace("\n", "\r\n") + "\r\nafter\r\n"
    yield "indented", "".join(f"    {line}\n" for line in lines) + "after\n"
    yield "numbered", "".join(f"{number:6d}\t{line}\n" for number, line in enumerate(lines, 1)) + "after\n"
    yield "in a difference", "".join(f"+{line}\n" for line in lines) + " after\n"
    yield "in a list", f"- {key}\n- after\n"
    yield "fenced", f"```\n{key}\n```\n"
    yield "in JSON", '{"private_key": "' + key.replace("\n", "\\n") + '\\n", "type": "x"}\n'
    yield "in JSON without a name", '{"k": "' + key.replace("\n", "\\n") + '", "type": "x"}'
    yield "on one line", key.replace("\n", " ") + " after\n"
    yield "cut off", "\n".join(lines[:5]) + "\n[cut here]\n"
    yield "the rest of it", "\n".join(lines[3:]) + "\nafter\n"
    yield "quoted", "k = (\n" + "".join(f'    "{line}\\n"\n' for line in lines) + ")\n"
    yield "twice", f"{key}\n{block(kind)}\nafter"
    yield "with empty lines", key.replace("\n", "\n\n") + "\nafter"
    yield "with a password", key.replace("\n", "\nProc-Type: 4,ENCRYPTED\n\n", 1) + "\nafter"


def texts() -> Iterator[tuple[str, str]]:
    for kind in KINDS:
        yield from ((f"{kind} {name}", text) for name, text in forms(kind))
    for sample in (*FORMATS, *PLACES):
        yield sample.name, f"first\n{sample.line}\nlast\n"
        yield f"{sample.name} alone", sample.line


def streamed(masker: TextMasker, text: str, cuts: Sequence[int]) -> str:
    stream, shown, at = masker.stream(), "", 0
    for cut in (*cuts, len(text)):
        shown += stream.feed(text[at:cut])
        at = cut
    return shown + stream.end()


def test_a_secret_in_pieces_of_any_size_is_masked_as_in_one() -> None:
    masker, failures = TextMasker([draw_random(24)], [("MY_NAME", draw_random(30))]), list[str]()
    for name, text in texts():
        whole = masker.text(text)
        assert whole != text, name
        sizes = [size for size in SIZES if streamed(masker, text, range(size, len(text), size)) != whole]
        failures += [f"{name}, in pieces of {sizes}"] if sizes else []
    assert not failures, "\n".join(failures)


def test_a_secret_that_is_cut_at_any_place_is_masked_as_in_one() -> None:
    masker, failures = TextMasker([draw_random(24)]), list[str]()
    for name, text in texts():
        whole = masker.text(text)
        cuts = [cut for cut in range(1, len(text), 7) if streamed(masker, text, [cut]) != whole]
        failures += [f"{name}, cut at {cuts[:5]}"] if cuts else []
    assert not failures, "\n".join(failures)


def test_what_is_no_key_is_not_held_back_for_long() -> None:
    stream = TextMasker().stream()
    shown = [
        stream.feed(piece)
        for piece in ("- one\n", "-", "- two", " three\n", "done\n", "ok\n", "50%\r", "60%\r")
    ]
    assert shown == ["- one\n", "", "-- ", "two three\n", "done\n", "ok\n", "50%\r", "60%\r"]


def test_lines_that_may_be_a_key_are_shown_as_soon_as_they_are_none() -> None:
    stream, line = TextMasker().stream(), draw_random(64)
    assert stream.feed(f"sum:\n{line}\n") == "sum:\n"
    assert stream.feed("that is no key.\n") == f"{line}\nthat is no key.\n"
    stream = TextMasker().stream()
    shown = sum(len(stream.feed(f"{line}\n")) for _ in range(3000))
    assert shown > 65 * 2700
    assert shown + len(stream.end()) == 65 * 3000


async def test_the_live_output_of_a_command_shows_no_key_however_slowly_it_comes(
    store: Store, tmp_path: Path
) -> None:
    for number, (name, text) in enumerate([*forms("OPENSSH PRIVATE KEY")][::3]):
        (tmp_path / "text").write_text(text, newline="")
        program = (
            "import sys\n"
            "text = open('text', newline='').read()\n"
            "for at in range(0, len(text), 2):\n"
            "    sys.stdout.write(text[at:at + 2]); sys.stdout.flush()\n"
        )
        (tmp_path / "slow.py").write_text(program)
        call = "run_shell_command", {"command": "python3 slow.py"}
        session = await open_real(store, ScriptedModel([call], "end"), tmp_path, f"s{number}")
        events, _ = await collect(session.send("go"))
        shown = "".join(event.chunk for event in events if isinstance(event, ToolOutput))
        secret = [line for line in text.split("\n") if len(line) > 40 and " " not in line]
        assert "[masked private key" in shown, name
        assert not [line for line in secret if line.strip('+" \t\\n\r')[8:32] in shown], name
