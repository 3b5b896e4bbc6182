"""TLS certificate for keepers' connections: self-signed, created once, identified by its fingerprint."""

from __future__ import annotations

import contextlib
import datetime
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

__all__ = ["keep_certificate"]

_NAME = "nnimgr keepers' door"
_FIRST_DAY = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_LAST_DAY = datetime.datetime(
    9999, 12, 31, tzinfo=datetime.UTC
)  # a certificate with this date never expires (RFC 5280)


def keep_certificate(path: Path) -> bytes:
    """Return the certificate in DER format. At the first use, create it with its key in the file ``path``.

    ``path``: PEM file of mode 0600. If several servers create it at the same time, all get the same
    certificate. Raise OSError, or ValueError if the file does not contain key and certificate.
    """
    with contextlib.suppress(FileNotFoundError):
        return _read(path)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(_make())
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)
    return _read(path)


def _read(path: Path) -> bytes:
    content = path.read_bytes()
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return x509.load_pem_x509_certificate(content).public_bytes(Encoding.DER)


def _make() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FIRST_DAY)
        .not_valid_after(_LAST_DAY)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + certificate.public_bytes(Encoding.PEM)
