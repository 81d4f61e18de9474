"""Identity of a site: its certificate, with whose key it signs rows that other sites pass on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.links import LinkError
from dimargin.gossip.tls_certificates import Tls
from dimargin.system.extras import require
from dimargin.system.reading import read_file

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


@dataclass(frozen=True)
class Identity:
    """Key of a site's certificate, and the authority's certificates, by which those of other sites are checked.

    Dates are not checked: rows stay signed when their site's certificate has expired, and other
    sites may still pass them on. TLS keeps sites without a valid certificate out.
    """

    name: str
    chain: bytes  # Certificates in PEM format, the site's own first, then those between it and the authority's.
    _key: Any
    _authority: tuple[Certificate, ...]

    @classmethod
    def of(cls, name: str, tls: Tls) -> Identity:
        """Read the files of a site.

        Raises
        ------
        MissingExtra
            If the package cryptography is not installed.
        LinkError
            If a file is damaged or of another kind, or its certificate cannot be used.
        """
        require("dimargin site with certificates and --share-rows", "cryptography")
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from cryptography.x509 import load_pem_x509_certificates

        path, max_bytes = tls.authority, 2**20  # A file of certificates or of a key is far shorter.
        try:
            authority = load_pem_x509_certificates(read_file(path, max_bytes))
            path = tls.certificate
            own = load_pem_x509_certificates(read_file(path, max_bytes))
            path = tls.key
            key = load_pem_private_key(read_file(path, max_bytes), password=None)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise LinkError(f"site {name}: {path} cannot be used: {error}") from error
        chain = _pem(own)
        found = cls(name, chain, key, tuple(authority))
        try:
            found.checked(name, chain, found.sign(b"") if _is_supported(key.public_key()) else b"", b"")
        except ValueError as error:
            raise LinkError(f"site {name}: {tls.key} and {tls.certificate} cannot sign its rows: {error}") from error
        return found

    def sign(self, data: bytes) -> bytes:
        """Return a signature of data by this site."""
        signature: bytes = self._key.sign(data, *_scheme(self._key.public_key()))
        return signature

    def checked(self, site: str, chain: bytes, signature: bytes, data: bytes) -> bytes:
        """Check a signature, and return the certificates that other sites need to check it.

        Parameters
        ----------
        site : str
            Name of the site that is claimed to have signed the data.
        chain : bytes
            Certificates as in `chain` of that site.

        Raises
        ------
        ValueError
            If the signature is invalid.
        """
        from cryptography.exceptions import InvalidSignature

        holder, key, needed = _holder(chain, self._authority)
        if holder != site:
            raise ValueError(f"a certificate for {holder!r}")
        try:
            key.verify(signature, data, *_scheme(key))
        except InvalidSignature:
            raise ValueError("an invalid signature") from None
        return needed


def _pem(certificates: Iterable[Certificate]) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


def _is_supported(key: Any) -> bool:
    """Return whether a public key is of a kind that TLS uses, too."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    return isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey)


def _scheme(key: Any) -> tuple[Any, ...]:
    """Return the padding and the hash of signatures by this kind of key."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    if isinstance(key, ec.EllipticCurvePublicKey):
        return (ec.ECDSA(hashes.SHA256()),)
    if isinstance(key, rsa.RSAPublicKey):
        return padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH), hashes.SHA256()
    return ()


@lru_cache(maxsize=LIMITS.sites)
def _holder(chain: bytes, authority: tuple[Certificate, ...]) -> tuple[str, Any, bytes]:
    """Return the name and key of a certificate that the authority has signed, and the chain that shows it.

    Raises ValueError if the certificate is not the authority's.
    """
    from cryptography import x509

    try:
        own, *between = x509.load_pem_x509_certificates(chain)
        path = [own]
        # The verifier of `_path` does not support authorities with Ed25519.
        if not any(_has_signed(one, own) for one in authority):
            path = _path(own, between, authority)
        (name,) = own.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        key, needed = own.public_key(), _pem(path)
    except Exception as error:  # The package documents no closed list of errors for bytes that a peer has sent.
        raise ValueError(f"a certificate that the authority has not issued: {error}") from error
    if not _is_supported(key):
        raise ValueError("a certificate whose key is not RSA, ECDSA or Ed25519")
    return str(name.value), key, needed


def _has_signed(authority: Certificate, certificate: Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):  # The issuer has another name, or used another algorithm.
        return False
    return True


def _path(own: Certificate, between: list[Certificate], authority: tuple[Certificate, ...]) -> list[Certificate]:
    """Return the certificates from the site's own to the last before the authority's; raise without such a path."""
    from cryptography.x509 import BasicConstraints
    from cryptography.x509 import verification as v

    anything = v.ExtensionPolicy.permit_all()  # Certificates need no host name, as for TLS.
    signs = anything.require_present(BasicConstraints, v.Criticality.AGNOSTIC, _check_is_authority)
    began = max(one.not_valid_before_utc for one in (own, *between))  # One in between may have been renewed.
    policy = v.PolicyBuilder().store(v.Store(list(authority))).time(began)
    policy = policy.extension_policies(ca_policy=signs, ee_policy=anything)
    return policy.build_client_verifier().verify(own, between).chain[:-1]


def _check_is_authority(policy: Any, certificate: Any, extension: Any) -> None:
    if not extension.ca:
        raise ValueError("its issuer is not an authority")
