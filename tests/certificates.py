"""Certificates as an authority of one's own signs them."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

__all__ = ["Authority"]

_DAY = datetime.timedelta(days=1)


class Authority:
    """Signs servers' certificates; ``pem`` is its own."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("an authority for tests")
        self.pem = _text(self._signed(self._name, self._key.public_key(), for_host=None))

    def server(self, host: str, folder: Path) -> ssl.SSLContext:
        """What a server of this name shows."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(_named(host), key.public_key(), for_host=host)
        path = folder / f"{host}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        path.write_text(private + _text(certificate))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _signed(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, *, for_host: str | None
    ) -> x509.Certificate:
        today = datetime.datetime.now(datetime.UTC)
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(today - _DAY)
            .not_valid_after(today + _DAY)
            .add_extension(x509.BasicConstraints(ca=for_host is None, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False
            )
        )
        if for_host is None:
            builder = builder.add_extension(own, critical=False)
            builder = builder.add_extension(_signing(), critical=True)  # Python 3.13 asks for it
        else:
            names = x509.SubjectAlternativeName([x509.DNSName(for_host)])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _signing() -> x509.KeyUsage:
    """Return the usage of a key that signs certificates."""
    uses = dict.fromkeys(
        (
            "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
            "key_agreement", "encipher_only", "decipher_only",
        ),
        False,
    )  # fmt: skip
    return x509.KeyUsage(key_cert_sign=True, crl_sign=True, **uses)


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()
