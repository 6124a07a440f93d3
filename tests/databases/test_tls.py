"""Stores on servers that take nothing but TLS: whose certificate is believed, what is said of any other."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.network.certificates import Authority
from support.network.tls_servers import only_with, tls_server

from sandbur.state.errors import StoreError
from sandbur.state.store.store import Store

OPTIONS = {
    "postgresql": {
        "identity": "sslmode=verify-full&sslrootcert={ca}",
        "authority": "sslmode=verify-ca&sslrootcert={ca}",
        "encrypted": "sslmode=require",
        "preferred": "sslmode=prefer",
        "plain": "sslmode=disable",
    },
    "mysql": {
        "identity": "ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}",
        "authority": "ssl-mode=VERIFY_CA&ssl-ca={ca}",
        "encrypted": "ssl-mode=REQUIRED",
        "preferred": "ssl-mode=PREFERRED",
        "plain": "ssl-mode=DISABLED",
    },
}
"""How much of the certificate is checked -> what stands behind the `?` for that."""
CIPHER = {
    "postgresql": "SELECT cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
    "mysql": "SELECT variable_value FROM information_schema.session_status"
    " WHERE variable_name = 'SSL_CIPHER'",
}


@dataclass(frozen=True, slots=True)
class Served:
    kind: str
    url: str
    """By a name for which the certificate stands."""
    ours: Path
    stranger: Path

    def opened(self, check: str, ca: Path | None = None, host: str = "localhost") -> str:
        """Open the store; return the cipher of its connection."""
        options = OPTIONS[self.kind][check].format(ca=ca or self.ours)
        store = Store.open(f"{self.url.replace('127.0.0.1', host)}?{options}")
        try:
            ((cipher,),) = store.database.query(CIPHER[self.kind])
            return str(cipher)
        finally:
            store.close()

    def refused(self, check: str, ca: Path | None = None, host: str = "localhost") -> str:
        with pytest.raises(StoreError) as caught:
            self.opened(check, ca, host)
        assert "plain-words" not in f"{caught.value.message} {caught.value.hint}"
        return f"{caught.value.message} {caught.value.hint}"


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=only_with(kind)) for kind in ("postgresql", "mysql")]
)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("certificates")
    ours, stranger = Authority(folder), Authority(folder, "stranger")
    with tls_server(request.param, ours.issue("localhost")) as url:
        yield Served(request.param, url, ours.certificate, stranger.certificate)


def test_the_right_authority_and_the_right_name_open_the_store(served: Served) -> None:
    assert served.opened("identity")


def test_the_right_authority_opens_it_by_another_name_if_the_name_does_not_count(served: Served) -> None:
    assert served.opened("authority", host="127.0.0.1")


@pytest.mark.parametrize("check", ["encrypted", "preferred"])
def test_encryption_alone_asks_for_no_authority(served: Served, check: str) -> None:
    assert served.opened(check)


@pytest.mark.parametrize("check", ["identity", "authority"])
def test_a_certificate_of_another_authority_is_refused(served: Served, check: str) -> None:
    said = served.refused(check, ca=served.stranger)
    assert "could not be reached over TLS" in said
    assert "sslrootcert; ssl-mode, ssl-ca" in said


def test_a_certificate_for_another_name_is_refused(served: Served) -> None:
    assert "could not be reached over TLS" in served.refused("identity", host="127.0.0.1")


def test_a_file_of_authorities_that_is_not_there_is_said(served: Served, tmp_path: Path) -> None:
    said = served.refused("identity", ca=tmp_path / "nowhere.pem")
    assert "could not be reached over TLS" in said or "a certificate file cannot be read" in said


def test_a_server_that_wants_tls_is_not_reached_without(served: Served) -> None:
    assert served.url.rpartition("@")[2].partition("/")[2] in served.refused("plain")
