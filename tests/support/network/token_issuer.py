"""An OpenID Connect issuer on this machine, whose keys a test makes and changes."""

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

AUDIENCE = "sandbur"


@dataclass
class SigningKey:
    private: Any
    algorithm: str

    def describe(self, key_id: str) -> dict[str, Any]:
        """Return the public part as a JSON Web Key."""
        algorithms = jwt.algorithms.get_default_algorithms()
        found = algorithms[self.algorithm].to_jwk(self.private.public_key(), as_dict=True)
        return {**found, "kid": key_id, "use": "sig"}


def make_rsa_key(algorithm: str = "RS256") -> SigningKey:
    return SigningKey(rsa.generate_private_key(public_exponent=65537, key_size=2048), algorithm)


def make_ec_key() -> SigningKey:
    return SigningKey(ec.generate_private_key(ec.SECP256R1()), "ES256")


def make_ed_key() -> SigningKey:
    return SigningKey(ed25519.Ed25519PrivateKey.generate(), "EdDSA")


@dataclass
class TokenIssuer:
    """Answers the discovery document and the keys; use it in a `with` block."""

    keys: dict[str, SigningKey] = field(default_factory=dict[str, SigningKey])
    extra_keys: list[Any] = field(default_factory=list[Any])
    """Further entries of the list of keys, as they are."""
    claimed: str = ""
    """The issuer that the discovery document names; empty: the right one."""
    requests: list[str] = field(default_factory=list[str])
    is_down: bool = False

    def __enter__(self) -> Self:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.requests.append(self.path)
                body = json.dumps(issuer.answer(self.path)).encode()
                self.send_response(503 if issuer.is_down else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/realm"

    def answer(self, path: str) -> Any:
        if path.endswith("openid-configuration"):
            return {"issuer": self.claimed or self.url, "jwks_uri": f"{self.url}/keys"}
        return {"keys": [*self.extra_keys, *(key.describe(key_id) for key_id, key in self.keys.items())]}

    def sign(self, key_id: str, *without: str, key: SigningKey | None = None, **claims: Any) -> str:
        """Return a token; claims named in `without` are left out."""
        now = int(time.time())
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "exp": now + 600, "scope": "read run"}
        body = {name: value for name, value in {**usual, **claims}.items() if name not in without}
        signing = key or self.keys[key_id]
        return jwt.encode(body, signing.private, algorithm=signing.algorithm, headers={"kid": key_id})


def join_token(header: Mapping[str, Any], claims: Mapping[str, Any], signature: bytes) -> str:
    """Return a token of exactly these parts."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
