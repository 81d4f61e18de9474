"""Certificates for tests, made as an openssl command would make them, and identities that are always the same."""

import datetime
import hashlib

import pytest


class Authority:
    """Signs certificates, as an openssl command would."""

    def __init__(self, folder, name):
        pytest.importorskip("cryptography", reason="cryptography is not installed, which makes the certificates")
        from cryptography.hazmat.primitives.asymmetric import ec

        self.folder, self.name = folder, name
        self._new_key = lambda: ec.generate_private_key(ec.SECP256R1())
        self.key = self._new_key()
        self.path = self._write(name, self._certificate(name, self.key, days=2, is_authority=True), self.key)[0]

    def _certificate(self, name, key, days, is_authority=False):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import NameOID

        now = datetime.datetime.now(datetime.UTC)
        subject, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (name, self.name))
        builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=9))
        builder = builder.not_valid_after(now + datetime.timedelta(days=days))
        if is_authority:
            builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
        else:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def _write(self, stem, certificate, key):
        from cryptography.hazmat.primitives import serialization as out

        paths = self.folder / f"{self.name}-{stem}.pem", self.folder / f"{self.name}-{stem}.key"
        paths[0].write_bytes(certificate.public_bytes(out.Encoding.PEM))
        paths[1].write_bytes(key.private_bytes(out.Encoding.PEM, out.PrivateFormat.PKCS8, out.NoEncryption()))
        return paths

    def member(self, name, days=2):
        key = self._new_key()
        return self._write(f"{name}{days}", self._certificate(name, key, days), key)


def identities(*names, authority="authority"):
    """Identities of sites with the same authority, by name; their keys are functions of the names."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding

    from dimargin.gossip.identity import Identity

    def key_of(name):
        return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"{authority} {name}".encode()).digest())

    def certificate(number, name):
        subject, issuer = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)]) for n in (name, authority))
        day = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)  # long ago: dates do not count
        builder = x509.CertificateBuilder(issuer, subject, key_of(name).public_key(), number + 1)
        builder = builder.not_valid_before(day).not_valid_after(day + datetime.timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(name == authority, None), critical=True)
        return builder.sign(key_of(authority), None)

    root = certificate(0, authority)
    return {
        name: Identity(name, certificate(k, name).public_bytes(Encoding.PEM), key_of(name), (root,))
        for k, name in enumerate(names, 1)
    }
