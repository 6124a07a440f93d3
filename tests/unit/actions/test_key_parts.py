"""Private keys are known without the line that says so: by their structure, their end, their file."""

import random
from base64 import b64encode
from pathlib import Path

import pytest

from sandbur.actions.masking.masker import TextMasker
from sandbur.agent.session.secrets import masker_for

_DICE = random.Random(5)
HEADS = {
    "PKCS#1": "308204a40201000282010100",
    "PKCS#1 of 1024 bits": "3082025c02010002818100",
    "PKCS#8": "308204bd020100300d06092a864886f70d0101010500048204a7",
    "PKCS#8 with a curve": "308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b0201010420",
    "SEC 1": "30770201010420",
    "Ed25519": "302e020100300506032b657004220420",
    "OpenSSH": b"openssh-key-v1\0\0\0\0\4none\0\0\0\4none".hex(),
}
PUBLIC = {
    "certificate": "308203b53082029da003020102021478",
    "public key": "30820122300d06092a864886f70d01010105000382010f00",
}
DASHES = "-" * 5


def _lines(head: str, size: int = 600) -> list[str]:
    body = b64encode(bytes.fromhex(head) + _DICE.randbytes(size)).decode()
    return [body[at : at + 64] for at in range(0, len(body), 64)]


@pytest.mark.parametrize("kind", HEADS)
def test_a_first_line_without_its_marker_is_known_by_its_structure(kind: str):
    lines = _lines(HEADS[kind])
    assert TextMasker().text(f"key.txt:2:{lines[0]}\n") == "key.txt:2:[masked private key]\n"
    assert TextMasker().text("\n".join([*lines, "", "more"])) == "[masked private key]\n\nmore"


@pytest.mark.parametrize("kind", PUBLIC)
def test_what_is_public_stays(kind: str):
    text = "\n".join([*_lines(PUBLIC[kind]), f"{DASHES}END CERTIFICATE{DASHES}"])
    assert TextMasker().text(text) == text


def test_the_tail_of_a_key_is_known_by_its_end():
    lines = [*_lines(HEADS["PKCS#8"])[3:], f"{DASHES}END PRIVATE KEY{DASHES}"]
    assert TextMasker().text("\n".join(["said:", *lines, "done"])) == "said:\n[masked private key]-----\ndone"
    numbered = "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(lines, 5))
    assert TextMasker().text(numbered) == "     5\t[masked private key]-----"


def test_the_middle_of_a_key_is_known_once_a_call_or_its_result_names_the_file(tmp_path: Path):
    lines = _lines(HEADS["OpenSSH"])
    tmp_path.joinpath("certs").mkdir()
    whole = [f"{DASHES}BEGIN OPENSSH PRIVATE KEY{DASHES}", *lines, f"{DASHES}END OPENSSH PRIVATE KEY{DASHES}"]
    tmp_path.joinpath("certs/server.key").write_text("\n".join(whole))
    for named in ('{"path": "certs/server.key", "offset": 4}', f"certs/server.key:5:{lines[3]}"):
        masker = masker_for({}, tmp_path)
        middle = "\n".join(lines[3:6])
        assert masker.text(middle) == middle
        masker.learn(named)
        assert masker.text(middle).count("[masked private key]") == 3


def test_a_value_alone_of_a_settings_file_below_is_known_once_a_call_names_it(tmp_path: Path):
    tmp_path.joinpath("deploy").mkdir()
    tmp_path.joinpath("deploy/.env.prod").write_text("DB_PASSWORD=correct-horse-battery\n")
    masker = masker_for({}, tmp_path)
    masker.learn('{"command": "cut -d= -f2 deploy/.env.prod"}')
    assert masker.text("correct-horse-battery") == "[masked value of DB_PASSWORD]"
