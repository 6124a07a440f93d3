"""Tokens of an OpenID Connect issuer: which ones count, and what their claims allow."""

import asyncio
import base64
import hashlib
import hmac
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.network.sandbur_server import RunningServer, serve
from support.network.token_issuer import (
    AUDIENCE,
    TokenIssuer,
    join_token,
    make_ec_key,
    make_ed_key,
    make_rsa_key,
)

from sandbur.state.store.access_tokens import AccessToken
from sandbur.ui.server.access.issuer_tokens import IssuerRules, IssuerTokens

HOUR = 3600


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenIssuer]:
    keys = {"rsa": make_rsa_key(), "pss": make_rsa_key("PS256"), "ec": make_ec_key(), "ed": make_ed_key()}
    shared = {"kty": "oct", "kid": "shared", "k": "c2VjcmV0LXRoYXQtaXMtc2hhcmVkLXdpdGgtY2xpZW50cw"}
    of_encryption = {**make_rsa_key().describe("enc"), "use": "enc"}
    with TokenIssuer(keys, [shared, of_encryption, "no key", {"kty": "RSA", "kid": "bad", "n": 1}]) as made:
        yield made


@pytest.fixture(scope="module")
def checker(issuer: TokenIssuer) -> IssuerTokens:
    return IssuerTokens(IssuerRules(issuer.url, AUDIENCE, "org", "scope", ""), print)


def flags_of(issuer: TokenIssuer, *more: str) -> tuple[str, ...]:
    return ("--oidc", issuer.url, "--oidc-audience", AUDIENCE, *more)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, issuer: TokenIssuer) -> Iterator[RunningServer]:
    home = tmp_path_factory.mktemp("served")
    with serve(home, *flags_of(issuer, "--oidc-tenant-claim", "org", "--rate-limit", "100000")) as running:
        yield running


def status_of(server: RunningServer, token: str, path: str = "/v1/sessions") -> int:
    return server.ask("GET", path, token=token).status


def refuse(server: RunningServer, token: str) -> str:
    """Return the message with which a token is refused."""
    answer = server.ask("GET", "/v1/sessions", token=token)
    assert answer.status == 401, answer.body
    return answer.json["error"]["message"]


def test_a_server_with_an_issuer_prints_no_token_of_its_own(server: RunningServer) -> None:
    assert server.token == ""
    assert server.ask("GET", "/v1/sessions", token="").status == 401


@pytest.mark.parametrize("key", ["rsa", "pss", "ec", "ed"])
def test_a_token_that_is_signed_with_a_key_of_the_issuer_counts(
    server: RunningServer, issuer: TokenIssuer, key: str
) -> None:
    assert status_of(server, issuer.sign(key, org="acme")) == 200


def test_the_claims_name_the_tenant_and_the_scopes(server: RunningServer, issuer: TokenIssuer) -> None:
    acme, other = issuer.sign("rsa", org="acme"), issuer.sign("rsa", org="other", sub="bob")
    server.begin("acmes", "hi", token=acme)
    assert [one["id"] for one in server.ask("GET", "/v1/sessions", token=acme).json["sessions"]] == ["acmes"]
    assert server.ask("GET", "/v1/sessions", token=other).json["sessions"] == []
    assert status_of(server, other, "/v1/sessions/acmes") == 404
    reader = issuer.sign("rsa", org="acme", scope="openid profile sandbur:read")
    assert status_of(server, reader, "/v1/sessions/acmes") == 200
    assert server.ask("POST", "/v1/sessions", {}, token=reader).status == 403
    assert status_of(server, issuer.sign("rsa", org="acme", scope="files.read reader")) == 403
    assert status_of(server, issuer.sign("rsa", "scope", org="acme")) == 403
    assert status_of(server, issuer.sign("rsa", org="acme", scope=["admin"]), "/v1/audit") == 200


def test_the_audit_trail_names_the_subject(server: RunningServer, issuer: TokenIssuer) -> None:
    admin = issuer.sign("rsa", org="audited", scope="admin run", sub="ada\u202e@acme")
    server.begin("audited", token=admin)
    (entry, *_) = server.ask("GET", "/v1/audit", token=admin).json["entries"]
    assert (entry["request"], entry["status"]) == ("POST /v1/sessions", 201)
    assert entry["token"].startswith("ada@acme (oidc-")


@pytest.mark.parametrize(
    ("without", "claims", "reason"),
    [
        ((), {"exp": 1}, "has expired"),
        (("exp",), {}, "lacks one of the claims"),
        (("sub",), {}, "lacks one of the claims"),
        (("aud",), {}, "lacks one of the claims"),
        ((), {"nbf": 4_000_000_000}, "is not valid yet"),
        ((), {"aud": "another program"}, "another audience"),
        ((), {"aud": []}, "lacks one of the claims"),
        ((), {"iss": "https://login.example.com"}, "another issuer"),
        ((), {"exp": "soon"}, "is not valid"),
        ((), {"org": ""}, "'org' of this token names no tenant"),
        (("org",), {}, "'org' of this token names no tenant"),
        ((), {"org": ["acme"]}, "'org' of this token names no tenant"),
        ((), {"org": "../acme"}, "'org' of this token names no tenant"),
    ],
)
def test_a_token_whose_claims_do_not_fit_is_refused_with_one_sentence(
    server: RunningServer, issuer: TokenIssuer, without: tuple[str, ...], claims: dict[str, Any], reason: str
) -> None:
    message = refuse(server, issuer.sign("rsa", *without, **{"org": "acme", **claims}))
    assert reason in message
    assert message.count(".") == 1


def test_a_token_that_nobody_signed_or_somebody_else_did_is_refused(
    server: RunningServer, issuer: TokenIssuer
) -> None:
    now = int(time.time())
    claims = {
        "iss": issuer.url, "aud": AUDIENCE, "sub": "eve", "exp": now + HOUR, "org": "acme", "scope": "admin"
    }  # fmt: skip
    public = issuer.keys["rsa"].private.public_key()
    assert "not valid" in refuse(server, join_token({"alg": "none", "kid": "rsa"}, claims, b""))
    assert "is wrong" in refuse(server, issuer.sign("rsa", key=make_rsa_key(), org="acme"))
    # The public key as the secret of a symmetric algorithm is the classic confusion.
    numbers = str(public.public_numbers().n).encode()
    for key_id in ("rsa", "shared"):
        header = {"alg": "HS256", "kid": key_id}
        unsigned = join_token(header, claims, b"").rstrip(".")
        forged = hmac.new(numbers, unsigned.encode(), hashlib.sha256).digest()
        assert refuse(server, join_token(header, claims, forged))
    assert "does not have" in refuse(server, issuer.sign("enc", key=make_rsa_key(), org="acme"))
    signed = issuer.sign("rsa", org="acme")
    head, _, signature = signed.split(".")
    _, body, _ = issuer.sign("rsa", org="other").split(".")
    assert "is wrong" in refuse(server, f"{head}.{body}.{signature}")


def test_a_key_of_another_type_than_the_algorithm_is_refused(
    server: RunningServer, issuer: TokenIssuer
) -> None:
    assert "not valid" in refuse(server, issuer.sign("rsa", key=make_ec_key(), org="acme"))


def test_a_new_key_is_read_once_and_invented_ones_cost_no_requests(tmp_path: Path) -> None:
    with TokenIssuer({"old": make_rsa_key()}) as issuer, serve(tmp_path, *flags_of(issuer)) as running:
        issuer.keys["new"] = make_ec_key()
        assert status_of(running, issuer.sign("new")) == 200
        assert len(issuer.requests) == 2
        for number in range(10):
            assert "does not have" in refuse(running, issuer.sign(f"invented{number}", key=make_ec_key()))
        assert len(issuer.requests) == 2
        assert status_of(running, issuer.sign("old")) == 200


@pytest.mark.parametrize("problem", ["down", "another issuer"])
def test_without_keys_the_answer_is_503_and_the_log_says_why(tmp_path: Path, problem: str) -> None:
    claimed = "https://login.example.com" if problem != "down" else ""
    with TokenIssuer({"a": make_rsa_key()}, claimed=claimed, is_down=problem == "down") as issuer:
        with serve(tmp_path, *flags_of(issuer)) as running:
            answer = running.ask("GET", "/v1/sessions", token=issuer.sign("a"))
            assert (answer.status, answer.json["error"]["type"]) == (503, "issuer_unreachable")
        log = (tmp_path / "server.err").read_text()
        assert "is of another issuer" in log if claimed else "has no JSON object" in log
        assert "Traceback" not in log


def test_a_token_of_the_store_counts_beside_those_of_the_issuer(tmp_path: Path, issuer: TokenIssuer) -> None:
    with serve(tmp_path, *flags_of(issuer)) as running:
        stored = running.add_token("ci", "--scopes", "read")
        assert status_of(running, stored) == 200
        assert status_of(running, issuer.sign("rsa")) == 200


def test_a_token_that_expires_ends_its_stream(tmp_path: Path, issuer: TokenIssuer) -> None:
    with serve(tmp_path, *flags_of(issuer)) as running:
        # The clocks may differ by 30 s, and the stream asks every 15 s.
        running.token = issuer.sign("rsa", exp=int(time.time()) - 25)
        running.begin("s1", "hi")
        with running.stream("s1") as events:
            assert [event.kind for event in events][-1] == "refused"


def test_a_session_of_a_tenant_without_stored_tokens_goes_on_after_a_kill(
    tmp_path: Path, issuer: TokenIssuer
) -> None:
    flags = flags_of(issuer, "--oidc-tenant-claim", "org", "--mode", "yolo")
    token = issuer.sign("rsa", org="late")
    with serve(tmp_path, *flags) as running:
        running.token = token
        running.begin("s1", "run sleep 2 && echo slept")
        with running.stream("s1") as events:
            next(event for event in events if event.data["type"] == "tool_use")
        running.process.kill()
        running.process.wait()
    with serve(tmp_path, *flags) as running:
        running.token = token
        assert running.wait_for("s1", "done", "needs_decision")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--oidc", "https://login.example.com"], "--oidc and --oidc-audience belong together"),
        (["--oidc", "http://login.example.com", "--oidc-audience", "x"], "has to begin with https://"),
        (["--oidc", "login.example.com", "--oidc-audience", "x"], "must start with"),
    ],
)
def test_flags_that_do_not_fit_end_the_command(tmp_path: Path, flags: list[str], message: str) -> None:
    with pytest.raises(AssertionError), serve(tmp_path, *flags):
        pass
    log = (tmp_path / "server.err").read_text()
    assert message in log
    assert "Traceback" not in log


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_token_with_any_changed_character_is_refused_with_a_sentence(
    issuer: TokenIssuer, checker: IssuerTokens, data: st.DataObject
) -> None:
    whole = issuer.sign("ec", org="acme")
    # The last character of a signature has bits that mean nothing.
    place = data.draw(st.integers(0, len(whole) - 2))
    changed = whole[:place] + data.draw(st.sampled_from("abcXYZ019-_.=[{\x00ü")) + whole[place + 1 :]
    if changed != whole:
        assert str(asyncio.run(checker.check(changed))).startswith(("This token", "The signature"))


@given(text=st.text(max_size=60) | st.binary(max_size=40).map(lambda one: f"{one.hex()}.{one.hex()}.x"))
def test_any_other_text_is_refused_with_a_sentence(checker: IssuerTokens, text: str) -> None:
    assert str(asyncio.run(checker.check(text))).startswith("This token")


@pytest.mark.parametrize(
    ("claim", "claims", "scopes"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["sandbur:run", "offline"]}}, ("run",)),
        ("https://acme.example/scopes", {"https://acme.example/scopes": "read approve"}, ("read", "approve")),
        ("scp", {"scp": ["admin", 3, None]}, ("admin",)),
        ("realm_access.roles", {"realm_access": "run"}, ()),
        ("missing.path", {}, ()),
        ("scope", {"scope": 7}, ()),
    ],
)
def test_scopes_are_read_from_the_claim_that_the_flag_names(
    issuer: TokenIssuer, claim: str, claims: dict[str, Any], scopes: tuple[str, ...]
) -> None:
    tokens = IssuerTokens(IssuerRules(issuer.url, AUDIENCE, "", claim, "all"), print)
    found = asyncio.run(tokens.check(issuer.sign("ed", "scope", **claims)))
    assert isinstance(found, AccessToken)
    assert (found.tenant, found.scopes, found.is_expired) == ("all", scopes, False)


def test_a_header_of_thousands_of_brackets_is_refused(checker: IssuerTokens) -> None:
    deep = base64.urlsafe_b64encode(b"[" * 5000).decode().rstrip("=")
    assert asyncio.run(checker.check(f"{deep}.x.x")) == "This token is not valid."
    assert asyncio.run(checker.check("x" * 100_000)) == "This token is too long."
