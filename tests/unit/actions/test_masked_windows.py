"""Bytes that are masked window by window lose what the whole of them loses, and nothing else."""

import base64
import random
from collections.abc import Callable

import pytest
from support.samples.secret import FORMATS, PLACES, draw_random

from sandbur.actions.masking.masker import TextMasker
from sandbur.actions.masking.windows import WINDOW_BYTES, mask_windows

MARK = "-----"
SECRET = draw_random(24)
LINES_OF_KEY = [draw_random(64) for _ in range(6)]
KEY = "\n".join((f"{MARK}BEGIN RSA PRIVATE KEY{MARK}", *LINES_OF_KEY, f"{MARK}END RSA PRIVATE KEY{MARK}"))
FIRST_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" + draw_random(32)
SMALL_WINDOW = 140_000
"""Little more than what a window has to know of the one after it: a cut every few lines."""


def masker() -> TextMasker:
    known = TextMasker([SECRET], [("MY_NAME", draw_random(30))], pairs=[("PIN", "4711")])
    known.references.exact_values.add((f"{draw_random(30)}\n{draw_random(30)}", "note"))
    return TextMasker([SECRET], [("MY_NAME", draw_random(30))], known.references, [("PIN", "4711")])


def windows(mask: TextMasker, data: bytes, window: int = SMALL_WINDOW) -> list[bytes]:
    return list(mask_windows(reader(data), len(data), mask.find_spans, 300, window))


def reader(data: bytes) -> Callable[[int, int], bytes]:
    return lambda start, size: data[start : start + size]


def assert_same(mask: TextMasker, data: bytes, least: int = 2) -> None:
    found = windows(mask, data)
    assert b"".join(found) == mask.data(data)
    assert len(found) >= least


def drawn_lines(dice: random.Random, size: int) -> bytes:
    samples = [sample.line for sample in (*FORMATS, *PLACES)]
    samples += [
        KEY,
        *KEY.split("\n"),
        FIRST_LINE,
        SECRET,
        "PIN=4711",
        KEY.replace("\n", "\\n"),
        "\n".join(LINES_OF_KEY),
    ]
    words = [
        "plain words, nothing else",
        "",
        "\x1b[31mred\x1b[0m",
        "one\rtwo\r",
        "x" * 300,
        "naïve: ü",
        "token:",
    ]
    words += [draw_random(64), "4711", "\0\x07\x08", "\udc80\udcff", "- --- ----- -----BEGIN", "50%\r60%"]
    found: list[str] = []
    while size > 0:
        found.append(dice.choice(samples) if dice.random() < 0.02 else dice.choice(words))
        found.append(dice.choice(("\n", "\n", "\n", "\n", "\r\n", "", " ")))
        size -= len(found[-2]) + len(found[-1])
    return "".join(found).encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("seed", range(6))
def test_lines_with_secrets_of_all_kinds_are_masked_as_in_one(seed: int) -> None:
    dice = random.Random(seed)
    assert_same(masker(), drawn_lines(dice, 300_000))


@pytest.mark.parametrize("seed", range(4))
def test_a_secret_at_the_border_of_a_window_is_masked_as_in_one(seed: int) -> None:
    dice, mask = random.Random(seed), masker()
    for text in (
        KEY,
        f"password = {draw_random(20)}",
        f"x {SECRET} y",
        f"{FIRST_LINE}\n" + "\n".join(LINES_OF_KEY),
    ):
        for _ in range(4):
            before = b"a line of a log\n" * (dice.randrange(6000, 9500) // 16)
            data = before + (f"{text}\n" + "another line\n" * 40).encode() * 12 + b"the rest\n" * 16_000
            assert_same(mask, data)


def test_a_secret_is_masked_wherever_the_windows_are_cut() -> None:
    mask = masker()
    text = "".join(f"{sample.line}\n{'words ' * 30}\n" for sample in (*FORMATS, *PLACES)) + f"{KEY}\n"
    for shift in range(0, 2000, 190):
        data = b"." * shift + b"\n" + text.encode() * (300_000 // len(text))
        assert_same(mask, data, 1)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"".join(b"%d\n" % number for number in range(60_000)), id="numbers"),
        pytest.param(base64.encodebytes(random.Random(1).randbytes(250_000)), id="base64"),
        pytest.param(random.Random(2).randbytes(400_000), id="any bytes"),
        pytest.param(b"50%\r" * 90_000 + b"done\n", id="returns"),
        pytest.param(b"\xff\xfe\x80line\n" * 50_000, id="no UTF-8"),
        pytest.param("line of text\n".encode("utf-16") * 15_000, id="two bytes a character"),
        pytest.param(b"x" * 400_000, id="one line"),
        pytest.param(b"token=" + draw_random(300_000).encode(), id="one secret"),
        pytest.param(b"\n" * 400_000, id="no lines"),
        pytest.param(b"\0" * 400_000, id="zeroes"),
        pytest.param(b"a\n", id="short"),
        pytest.param(b"", id="empty"),
    ],
)
def test_output_of_any_kind_is_masked_as_in_one(data: bytes) -> None:
    mask = masker()
    for text in (data, data + KEY.encode(), data + b"\n" + KEY.encode() + b"\n" + data):
        expected = mask.data(text)
        assert b"".join(mask.windows(reader(text), len(text))) == expected
        if not text.startswith(b"\xff\xfe"):
            assert b"".join(windows(mask, text)) == expected


def test_a_body_of_a_key_that_does_not_end_is_one_secret() -> None:
    body = "".join(f"{draw_random(64)}\n" for _ in range(5000))
    data = f"first\n{FIRST_LINE}\n{body}end.\n".encode() + b"after that\n" * 20_000
    found = b"".join(windows(masker(), data))
    assert found.startswith(b"first\n[masked private key]\nend.\n")
    assert found == masker().data(data)


def test_text_of_two_bytes_a_character_is_masked_as_a_whole() -> None:
    data = f"key: {SECRET}\n".encode("utf-16")
    mask = masker()
    assert b"".join(mask.windows(reader(data), len(data))) == mask.data(data)
    assert SECRET.encode("utf-16-le") not in mask.data(data)


def test_no_more_is_read_at_once_than_a_window() -> None:
    data, sizes = b"a line of a log\n" * 200_000, list[int]()

    def read(start: int, size: int) -> bytes:
        sizes.append(size)
        return data[start : start + size]

    assert b"".join(masker().windows(read, len(data))) == data
    assert max(sizes) == WINDOW_BYTES
