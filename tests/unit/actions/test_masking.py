"""Secrets go where text enters: whole texts, bytes of any encoding, and live output in pieces."""

import base64
import json
import random

import pytest
from support.samples.harmless import LINES as HARMLESS
from support.samples.secret import FORMATS, PLACES, draw_random

from sandbur.actions.masking.masker import PLACEHOLDER, TextMasker
from sandbur.actions.masking.references import mask_arguments

SECRET = draw_random(24)
BODY = "\n".join(draw_random(64) for _ in range(6)) + "\n" + draw_random(20) + "=="
MARK = "-----"


def _block(kind: str = "RSA PRIVATE KEY") -> str:
    return f"{MARK}BEGIN {kind}{MARK}\n{BODY}\n{MARK}END {kind}{MARK}"


def _streamed(masker: TextMasker, text: str, sizes: random.Random) -> str:
    stream, shown, at = masker.stream(), "", 0
    while at < len(text):
        size = sizes.choice((1, 2, 3, 7, 40, 400))
        shown += stream.feed(text[at : at + size])
        at += size
    return shown + stream.end()


@pytest.mark.parametrize(
    "kind",
    ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK", "EC PRIVATE KEY"],
)
def test_a_private_key_is_masked_as_a_whole(kind: str):
    assert TextMasker().text(f"before\n{_block(kind)}\nafter\n") == "before\n[masked private key]\nafter\n"


def test_a_secret_among_other_texts_is_found_if_it_is_found_alone():
    chance, masker = random.Random(5), TextMasker()
    lines = [sample.line for sample in (*FORMATS, *PLACES)]
    others = [
        *HARMLESS,
        "password=",
        "Authorization: Bearer",
        f"{MARK}BEGIN RSA PRIVATE KEY{MARK}",
        '"',
        "sk-",
    ]
    for line in filter(lambda line: masker.text(line) != line, lines):
        joined = "\n".join([*chance.choices(others, k=3), line, *chance.choices(others, k=3)])
        assert masker.text(joined) != joined, joined


def test_a_private_key_in_numbered_or_changed_lines_is_masked():
    numbered = "\n".join(f"{n:6d}\t{line}" for n, line in enumerate(_block().split("\n"), 1))
    assert TextMasker().text(numbered) == "     1\t[masked private key]"
    added = "\n".join("+" + line for line in _block().split("\n"))
    assert TextMasker().text(added) == "+[masked private key]"


def test_a_private_key_on_one_line_of_json_is_masked():
    line = '{"private_key": "' + _block().replace("\n", "\\n") + '\\n", "type": "x"}'
    masked = TextMasker().text(line)
    assert BODY[:20] not in masked
    assert masked.endswith('", "type": "x"}')


def test_a_private_key_that_is_cut_off_is_masked_as_far_as_it_goes():
    cut = "\n".join(_block().split("\n")[:4])
    assert TextMasker().text(cut + "\n[cut here, 3 lines left]\n") == (
        "[masked private key]\n[cut here, 3 lines left]\n"
    )


def test_code_that_speaks_of_private_keys_stays():
    code = f'if text.startswith("{MARK}BEGIN PRIVATE KEY{MARK}"):\n    internationalization()\n'
    assert TextMasker().text(code) == code


def test_an_exact_value_is_masked_wherever_it_stands():
    masker = TextMasker([SECRET])
    assert masker.text(f"x{SECRET}y") == "x[masked value]y"
    assert TextMasker(named=[("MY_VALUE", SECRET)]).text(SECRET) == "[masked value of MY_VALUE]"


def test_an_exact_value_is_masked_as_json_url_and_base64_too():
    value = 'a"b/c d&' + draw_random(9)
    masker = TextMasker([value])
    for form in (r"a\"b/c d&" + value[8:], "a%22b%2Fc%20d%26" + value[8:], "a%22b%2Fc+d%26" + value[8:]):
        assert masker.text(f"<{form}>") == "<[masked value]>"
    assert masker.text(base64.b64encode(value.encode()).decode()).startswith("[masked value]")


def test_each_line_of_a_long_value_is_masked_by_itself():
    masker = TextMasker(named=[("DEPLOY", _block())])
    assert BODY.split("\n")[2] not in masker.text(f"  7\t{BODY.split(chr(10))[2]}")


def test_a_value_under_eight_characters_is_not_looked_for():
    assert TextMasker(["secret7"]).text("my secret7") == "my secret7"


def test_a_value_that_is_a_word_of_a_placeholder_does_not_break_it():
    masker = TextMasker(["masked value"], named=[("DB_PASSWORD", SECRET), ("OTHER", "DB_PASSWORD")])
    once = masker.text(f"it is {SECRET}")
    assert once == "it is [masked value of DB_PASSWORD]"
    assert masker.text(once) == once


def test_bytes_of_any_encoding_lose_only_the_secret():
    masker = TextMasker([SECRET])
    junk = bytes(range(256)) * 2
    assert masker.data(junk + SECRET.encode() + junk) == junk + b"[masked value]" + junk
    assert masker.data(junk) is junk
    latin = "é".encode("latin-1")
    assert masker.data(latin + SECRET.encode() + latin) == latin + b"[masked value]" + latin


def test_utf16_files_are_masked_too():
    for encoding, mark in (("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")):
        data = mark + f"key: {SECRET}\n".encode(encoding)
        assert TextMasker([SECRET]).data(data) == mark + "key: [masked value]\n".encode(encoding)


def test_text_with_lone_surrogates_and_other_scripts_keeps_them():
    text = f"\udc80 Schlüssel \U0001f511 {SECRET} \ud800"
    assert TextMasker([SECRET]).text(text) == text.replace(SECRET, "[masked value]")


def test_text_without_secrets_is_the_same_object():
    text = "nothing to see " * 100
    assert TextMasker([SECRET]).text(text) is text


def test_a_stream_shows_what_the_whole_text_would_show():
    dice = random.Random(3)
    masker = TextMasker([SECRET], named=[("A_NAME", "-+" + draw_random(20))])
    lines = [sample.line for sample in (*FORMATS, *PLACES)]
    lines += [_block(), f"{SECRET} and {SECRET}", "plain words", "", "..... 45%", "naïve: ü", "x" * 300]
    for _ in range(15):
        text = "\n".join(dice.sample(lines, 30)) + dice.choice(("", "\n"))
        assert _streamed(masker, text, dice) == masker.text(text)


def test_a_stream_holds_no_whole_line_back():
    stream = TextMasker([SECRET]).stream()
    assert stream.feed("one password: x\ntwo\n") == "one password: x\ntwo\n"
    assert stream.feed("... 12 % ") == "... 12 % "
    assert stream.feed("....") == "...."
    assert stream.feed(" " + SECRET[:5]) == " "
    assert stream.feed(SECRET[5:] + "\n") == "[masked value]\n"
    assert stream.end() == ""


def test_a_stream_holds_a_private_key_back_until_it_ends():
    stream, block = TextMasker().stream(), _block()
    shown = "".join(stream.feed(line + "\n") for line in ("$ cat key", *block.split("\n")[:-1]))
    assert shown == "$ cat key\n"
    assert stream.feed(block.split("\n")[-1] + "\n") == "[masked private key]\n"


def test_a_line_without_end_is_not_held_forever():
    stream = TextMasker().stream()
    shown = sum(len(stream.feed("token " * 100)) for _ in range(500))
    assert shown > 250_000
    assert shown + len(stream.end()) == 300_000


def test_every_placeholder_is_recognised():
    for sample in (*FORMATS, *PLACES):
        assert PLACEHOLDER.search(TextMasker().text(sample.line)) is not None


@pytest.mark.parametrize(
    "text", ["hello", "hello world 42", "step2-item3x", "##ing123", "naïve42token", "C3PO said"]
)
def test_a_parameter_that_is_only_named_token_keeps_a_word(text: str):
    arguments = json.dumps({"token": text, "of": {"Token": text}}, ensure_ascii=False)
    assert mask_arguments(arguments, TextMasker()) == arguments


@pytest.mark.parametrize("name", ["token", "api_token", "access_token", "password", "secret"])
def test_a_parameter_with_a_random_value_under_the_name_of_a_secret_is_masked(name: str):
    for length in (16, 24, 40):
        masked = json.loads(mask_arguments(json.dumps({name: draw_random(length - 1) + "7"}), TextMasker()))
        assert masked[name].startswith("[masked ")
