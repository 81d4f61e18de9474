"""Identity of a site: the certificate by which others know it, with whose key it signs rows that they pass on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dimargin.gossip import limits
from dimargin.gossip.links import LinkError
from dimargin.gossip.tls_certificates import Tls
from dimargin.system.extras import require
from dimargin.system.reading import read_file

_MAX_PEM_BYTES = 2**20  # A file of certificates or of a key may have so many bytes.

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


@dataclass(frozen=True)
class Identity:
    """Key of a site's certificate, and the certificates of the authority, by which those of others are judged.

    Dates are not looked at: what a site has signed stays signed by it when its certificate has expired, and whoever
    passes it on does no wrong. That no site without a valid certificate is heard itself is the business of TLS.
    """

    name: str
    chain: bytes  # certificates in PEM format, the site's own first, then those between it and the authority's
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
            If a file is damaged or of another kind, or its certificate does not serve.
        """
        require("dimargin site with certificates and --share-rows", "cryptography")
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
        from cryptography.x509 import load_pem_x509_certificates

        path = tls.authority
        try:
            authority = load_pem_x509_certificates(read_file(path, _MAX_PEM_BYTES))
            path = tls.certificate
            chain = b"".join(
                one.public_bytes(Encoding.PEM) for one in load_pem_x509_certificates(read_file(path, _MAX_PEM_BYTES))
            )
            path = tls.key
            key = load_pem_private_key(read_file(path, _MAX_PEM_BYTES), password=None)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise LinkError(f"site {name}: {path} cannot be used: {error}") from error
        found = cls(name, chain, key, tuple(authority))
        try:
            found.checked(name, chain, found.sign(b"") if _is_known(key.public_key()) else b"", b"")
        except ValueError as error:
            raise LinkError(f"site {name}: {tls.key} and {tls.certificate} cannot sign its rows: {error}") from error
        return found

    def sign(self, data: bytes) -> bytes:
        """Return a signature of data by this site."""
        signature: bytes = self._key.sign(data, *_scheme(self._key.public_key()))
        return signature

    def checked(self, site: str, chain: bytes, signature: bytes, data: bytes) -> bytes:
        """Return the certificates that are needed to check this again, for others; ValueError if data are not signed.

        Parameters
        ----------
        site : str
            Name of the site that is said to have signed the data.
        chain : bytes
            Certificates as in `chain` of that site.
        """
        from cryptography.exceptions import InvalidSignature

        holder, key, needed = _holder(chain, self._authority)
        if holder != site:
            raise ValueError(f"a certificate for {holder!r}")
        try:
            key.verify(signature, data, *_scheme(key))
        except InvalidSignature:
            raise ValueError("a signature that does not fit") from None
        return needed


def _is_known(key: Any) -> bool:
    """Return whether a public key is of a kind that TLS uses, too."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    return isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey)


def _scheme(key: Any) -> tuple[Any, ...]:
    """Return the padding and the hash that signatures by a kind of key need."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    if isinstance(key, ec.EllipticCurvePublicKey):
        return (ec.ECDSA(hashes.SHA256()),)
    if isinstance(key, rsa.RSAPublicKey):
        return padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH), hashes.SHA256()
    return ()


@lru_cache(maxsize=limits.SITES)
def _holder(chain: bytes, authority: tuple[Certificate, ...]) -> tuple[str, Any, bytes]:
    """Return the name and key of a certificate that the authority has signed, and the certificates that show it.

    ValueError says why there are none.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    try:
        own, *between = x509.load_pem_x509_certificates(chain)
        path = [own]
        if not any(_has_signed(one, own) for one in authority):  # the verifier knows no Ed25519 of an authority
            path = _path(own, between, authority)
        (name,) = own.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        key, needed = own.public_key(), b"".join(one.public_bytes(Encoding.PEM) for one in path)
    except Exception as error:  # of bytes that a peer has sent, for which the package names no closed list of errors
        raise ValueError(f"a certificate that is none of the authority's: {error}") from error
    if not _is_known(key):
        raise ValueError("a certificate whose key is none of RSA, ECDSA or Ed25519")
    return str(name.value), key, needed


def _has_signed(authority: Certificate, certificate: Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):  # of another name, by another algorithm
        return False
    return True


def _path(own: Certificate, between: list[Certificate], authority: tuple[Certificate, ...]) -> list[Certificate]:
    """Return certificates from the site's own to the last before the authority's; raises if there is no such path."""
    from cryptography.x509 import BasicConstraints
    from cryptography.x509 import verification as v

    anything = v.ExtensionPolicy.permit_all()  # as of certificates for TLS here: no name of a host is needed
    signs = anything.require_present(BasicConstraints, v.Criticality.AGNOSTIC, _check_is_authority)
    began = max(one.not_valid_before_utc for one in (own, *between))  # one between may have been renewed
    policy = v.PolicyBuilder().store(v.Store(list(authority))).time(began)
    policy = policy.extension_policies(ca_policy=signs, ee_policy=anything)
    return policy.build_client_verifier().verify(own, between).chain[:-1]


def _check_is_authority(policy: Any, certificate: Any, extension: Any) -> None:
    if not extension.ca:
        raise ValueError("who signed it is no authority")
