"""A certificate authority for tests, and certificates that it signs."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_PEM = serialization.Encoding.PEM


@dataclass(frozen=True, slots=True)
class Issued:
    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


class Authority:
    """A certificate authority that signs for any host; clients must trust `certificate`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _make_name(f"{name} of a test")
        self.certificate = folder / f"{name}.pem"
        made = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate.write_bytes(made.public_bytes(_PEM))

    def issue(self, *hosts: str) -> Issued:
        """Make a certificate for names and addresses, with its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = (
            _builder(_make_name(hosts[0]), self._name, key)
            .add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(key_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        issued = Issued(self._folder / f"{hosts[0]}.pem", self._folder / f"{hosts[0]}.key")
        issued.certificate.write_bytes(made.public_bytes(_PEM))
        issued.key.touch(mode=0o600)
        form = (_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        issued.key.write_bytes(key.private_bytes(*form))
        return issued

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificate)


def _make_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    day = datetime.timedelta(days=1)
    return builder.not_valid_before(now - day).not_valid_after(now + day)


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
