"""Certificates and node keys for a test federation: `python -m fedtrip.flower.credentials FOLDER --nodes 2`.

Writes `ca.crt`, `server.pem` and `server.key` for TLS, and `node-N` with `node-N.pub` for each SuperNode. The key of
the certificate authority is not kept, so nobody can ever sign with it again; a real federation uses its own authority.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=30)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_NO_ENCRYPTION = serialization.NoEncryption()


def write_credentials(folder: Path, nodes: int, hosts: tuple[str, ...] = LOOPBACK) -> None:
    """Write everything that a federation of so many nodes needs; `hosts` are the SuperLink's names and addresses."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedtrip test authority")])
    root = (
        _certificate(issuer, issuer, authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority, hashes.SHA384())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    leaf = (
        _certificate(subject, issuer, server.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .sign(authority, hashes.SHA384())
    )
    pem = serialization.Encoding.PEM
    _write(folder / "ca.crt", root.public_bytes(pem), 0o644)
    _write(folder / "server.pem", leaf.public_bytes(pem), 0o644)
    pkcs8 = serialization.PrivateFormat.PKCS8
    _write(folder / "server.key", server.private_bytes(pem, pkcs8, _NO_ENCRYPTION), 0o600)
    for number in range(1, nodes + 1):
        key = ec.generate_private_key(ec.SECP384R1())
        openssh = serialization.PrivateFormat.OpenSSH
        _write(folder / f"node-{number}", key.private_bytes(pem, openssh, _NO_ENCRYPTION), 0o600)
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        _write(folder / f"node-{number}.pub", public + b"\n", 0o644)


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - datetime.timedelta(minutes=5),  # for clocks that do not quite agree
        not_valid_after=now + LIFETIME,
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(path: Path, content: bytes, mode: int) -> None:
    """A new file with this mode from its first byte on; an existing one is not replaced, somebody may be using it."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m fedtrip.flower.credentials", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=2, help="SuperNodes that get a key")
    parser.add_argument("--host", action="append", help="name or address of the SuperLink (default: loopback)")
    arguments = parser.parse_args()
    try:
        write_credentials(arguments.folder, arguments.nodes, tuple(arguments.host or LOOPBACK))
    except FileExistsError as problem:
        parser.error(f"'{problem.filename}' is there already; accepted: a new folder")


if __name__ == "__main__":
    main()
