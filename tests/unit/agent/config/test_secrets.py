"""The values in the environment and in `.env` files are masked; ordinary words are not."""

import os
from pathlib import Path

import pytest
from support.samples.secret import draw_random

from sandbur.actions.tools.shell.execution.process_marker import shell_environment
from sandbur.agent.models.providers import ProviderOverride, key_names
from sandbur.agent.session.secrets import masker_for, says_secret, settings

SECRET = draw_random(24)


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "DB_PASS", "PGPASSWORD", "STRIPE_KEY", "A_SECRET"]
)
def test_a_variable_with_a_telling_name_is_masked(name: str, tmp_path: Path):
    assert masker_for({name: SECRET}, tmp_path).text(f"<{SECRET}>") == f"<[masked value of {name}]>"


@pytest.mark.parametrize(
    "name", ["PATH", "TOKEN_FILE", "PWD", "SSH_AUTH_SOCK", "MAX_TOKENS", "AWS_ACCESS_KEY_ID", "PUBLIC_KEY"]
)
def test_a_variable_with_another_name_is_not(name: str):
    assert not says_secret(name)


@pytest.mark.parametrize(
    "value",
    [
        "production",
        "short7!",
        "true",
        "1234567890",
        "/run/secrets/key",
        "https://auth.test/token",
        "changeme",
        "my-value",
    ],
)
def test_an_ordinary_value_is_not_masked_whatever_its_name(value: str, tmp_path: Path):
    (tmp_path / ".env").write_text(f"API_TOKEN={value}\n")
    assert masker_for({"API_TOKEN": value}, tmp_path).text(f"see {value} there") == f"see {value} there"


def test_a_password_in_the_url_of_a_variable_is_masked_alone(tmp_path: Path):
    masker = masker_for({"DATABASE_URL": f"postgresql://app:{SECRET}@db.test/shop"}, tmp_path)
    assert masker.text(f"password {SECRET} for db.test/shop") == (
        "password [masked value of DATABASE_URL] for db.test/shop"
    )


def test_env_files_are_read_and_their_templates_are_not(tmp_path: Path):
    read = {".env": draw_random(20), ".env.local": draw_random(20), ".env.production": draw_random(20)}
    unread = {
        ".env.example": draw_random(20),
        ".env.production.sample": draw_random(20),
        ".env.template": draw_random(20),
        ".envrc": draw_random(20),
    }
    for name, value in (read | unread).items():
        (tmp_path / name).write_text(f"API_TOKEN={value}\n")
    masker = masker_for({}, tmp_path)
    assert {masker.text(value) for value in read.values()} == {"[masked value of API_TOKEN]"}
    assert [masker.text(value) for value in unread.values()] == list(unread.values())


def test_a_random_value_in_an_env_file_is_masked_whatever_its_name(tmp_path: Path):
    (tmp_path / ".env").write_text(f"SOMETHING={SECRET}\nGREETING=hello world\n")
    masker = masker_for({}, tmp_path)
    assert masker.text(f"{SECRET} hello world") == "[masked value of SOMETHING] hello world"


def test_a_changed_new_or_removed_env_file_counts_at_once(tmp_path: Path):
    masker, later = masker_for({}, tmp_path), draw_random(30)
    assert masker.text(SECRET) == SECRET
    (tmp_path / ".env").write_text(f"A_TOKEN={SECRET}\n")
    assert masker.text(SECRET) == "[masked value of A_TOKEN]"
    (tmp_path / ".env").write_text(f"A_TOKEN={later}\n")
    assert masker.text(f"{SECRET} {later}") == f"{SECRET} [masked value of A_TOKEN]"
    (tmp_path / ".env").unlink()
    assert masker.text(later) == later


def test_env_files_that_cannot_be_read_do_no_harm(tmp_path: Path):
    (tmp_path / ".env").mkdir()
    (tmp_path / ".env.local").symlink_to("nowhere")
    os.mkfifo(tmp_path / ".env.pipe")
    (tmp_path / ".env.bytes").write_bytes(b"\xff\xfe\x00=\x00" * 100 + f"\nA_TOKEN={SECRET}\n".encode())
    assert masker_for({}, tmp_path).text(SECRET) == "[masked value of A_TOKEN]"
    assert masker_for({}, tmp_path / "gone").text(SECRET) == SECRET


def test_quotes_exports_comments_and_many_lines_are_understood():
    text = (
        '# a comment\n\nexport A=one two # why\nB = \'single # kept\'\nC="double \\"quoted\\"\\nline"\n'
        'D="first\nsecond" # after\nno setting\nE: colon\nF=\nG="never closed\nH=last'
    )
    assert list(settings(text)) == [
        ("A", "one two"), ("B", "single # kept"), ("C", 'double "quoted"\nline'), ("D", "first\nsecond"),
        ("E", "colon"), ("F", ""), ("G", '"never closed'), ("H", "last"),
    ]  # fmt: skip


def test_a_value_of_many_lines_is_masked_line_by_line(tmp_path: Path):
    first, second = draw_random(64), draw_random(64)
    (tmp_path / ".env").write_text(f'SIGNING_KEY="{first}\n{second}"\n')
    assert masker_for({}, tmp_path).text(f"   3\t{second}") == "   3\t[masked value of SIGNING_KEY]"


def test_live_output_is_masked_with_the_values_of_the_session(tmp_path: Path):
    stream = masker_for({"A_TOKEN": SECRET}, tmp_path).stream()
    assert stream.feed(SECRET[:9]) + stream.feed(SECRET[9:]) + stream.end() == "[masked value of A_TOKEN]"
    assert masker_for({"A_TOKEN": SECRET}, tmp_path).data(SECRET.encode()) == b"[masked value of A_TOKEN]"


def test_the_key_that_a_provider_names_is_masked_whatever_its_name_and_no_command_sees_it(tmp_path: Path):
    names = key_names({"mine": ProviderOverride("http://127.0.0.1:1/v1", "MY_ACCESS")})
    assert {"MY_ACCESS", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"} <= names
    env = {"MY_ACCESS": "Kx81-ppQz-77", "EDITOR": "vi", "SANDBUR_STORE": "x"}
    assert (
        masker_for(env, tmp_path, withheld=names).text("it is Kx81-ppQz-77")
        == "it is [masked value of MY_ACCESS]"
    )
    assert {"MY_ACCESS", "SANDBUR_STORE"} & shell_environment(env, "call", names).keys() == set()
    assert shell_environment(env, "call", names)["EDITOR"] == "vi"


SHORT = (
    ("PIN", "4711"), ("DB_PIN", "123456"), ("SIM_PIN_CODE", "0000"), ("CARD_CVC", "123"), ("OTP", "998877"),
    ("DB_PASSWORD", "letmein"), ("ROOT_PASS", "toor"), ("API_TOKEN", "12345678"), ("KEY", "correct-horse-2"),
)  # fmt: skip
NOT_SHORT = (
    ("PIN", "true"), ("PIN_REQUIRED", "4711"), ("PORT", "4711"), ("SPINNER", "4711"), ("PIN", ""),
    ("PIN", "12"), ("DB_PASSWORD", "changeme"), ("PIN", "${PIN}"), ("MAX_TOKENS", "4096"),
    ("GREETING", "letmein"), ("TOKEN_TTL", "3600"), ("AUTH", "basic"),
)  # fmt: skip


@pytest.mark.parametrize("file", [".env", "deploy/secrets.yml"])
def test_a_short_secret_of_a_secret_file_is_masked_behind_its_name(file: str, tmp_path: Path):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    for name, value in SHORT:
        path.write_text(f"{name}={value}\n")
        masker = masker_for({}, tmp_path)
        masker.learn(f"cat {file}")
        for form in ("{}={}", "export {}='{}'", '"{}": "{}"', "{}: {}", '{{\\"{}\\": \\"{}\\"}}', "{} = {}"):
            shown = masker.text(form.format(name, value))
            assert shown == form.format(name, f"[masked value of {name}]"), form
        assert masker.text(f"chapter {value} of it") == f"chapter {value} of it"
        stream = masker.stream()
        shown = "".join(stream.feed(one) for one in f"a {name}: {value}\nb") + stream.end()
        assert shown == f"a {name}: [masked value of {name}]\nb"


def test_what_only_looks_like_a_short_secret_stays(tmp_path: Path):
    for name, value in NOT_SHORT:
        (tmp_path / ".env").write_text(f"{name}={value}\n")
        assert masker_for({}, tmp_path).text(f"{name}={value}") == f"{name}={value}"


WORDS = (
    "backspace-delete-enter", "the quick brown fox", "created-at-desc", "eu-central-1a-blue",
    "partition by day",    "Content-Security-Policy", "some_long_identifier",
)  # fmt: skip


@pytest.mark.parametrize("name", ["KEY", "key", "KEY2", "HOT_KEY", "SORT_KEY", "PASS", "AUTH", "SALT", "JWT"])
def test_a_name_that_says_little_masks_no_words_of_a_message(name: str, tmp_path: Path):
    for value in WORDS:
        for masker in (masker_for({name: value}, tmp_path), masker_for({}, tmp_path)):
            assert masker.text(f"please sort {value} now") == f"please sort {value} now"
        (tmp_path / ".env").write_text(f"{name}={value}\n")
        assert masker_for({}, tmp_path).text(f"please sort {value} now") == f"please sort {value} now"
        (tmp_path / ".env").unlink()


@pytest.mark.parametrize("name", ["KEY", "KEY_2", "APP_KEY", "PASS", "AUTH", "SALT", "JWT"])
def test_a_name_that_says_little_masks_what_looks_like_a_secret(name: str, tmp_path: Path):
    for value in (
        SECRET,
        "Tr0ub4dor&3xyz",
        f"{draw_random(3)}4x{draw_random(3)}-k7{draw_random(3)}Q2{draw_random(1)}-9A",
    ):
        assert masker_for({name: value}, tmp_path).text(f"<{value}>") == f"<[masked value of {name}]>"


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "DB_PASSWORD", "AUTH_TOKEN", "APP_SECRET", "SIGNING_KEY"])
def test_a_name_that_says_all_masks_a_phrase_too(name: str, tmp_path: Path):
    value = "correct-horse-battery-staple"
    assert masker_for({name: value}, tmp_path).text(f"<{value}>") == f"<[masked value of {name}]>"


ANNOTATIONS = (
    "private_key: Ed25519PrivateKey", "    private_key: Ed25519PrivateKey = None\n",
    "def sign(private_key: Ed25519PrivateKey) -> None:", "private_key: X25519PrivateKey | None",
    "secret_key: Curve25519SecretKey", "signing_key: P256SigningKey,", "api_key: Base64Str",
)  # fmt: skip
NO_ANNOTATIONS = (
    "private_key: {}", "api_key: A1B2C3D4E5F6Key", "password: Summer2024Key", "client_secret: ApiV2Secret99",
    "private_key=Ed25519Priv4teK3y99",
)  # fmt: skip


def test_the_class_of_a_variable_is_no_secret_and_its_value_is(tmp_path: Path):
    masker = masker_for({}, tmp_path)
    for text in ANNOTATIONS:
        assert masker.text(text) == text
    for text in NO_ANNOTATIONS:
        assert "[masked" in masker.text(text.format(SECRET)), text
