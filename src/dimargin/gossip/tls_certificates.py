"""Certificates by which sites authenticate themselves over TLS."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from dataclasses import dataclass

from dimargin.gossip.links import LinkError


@dataclass(frozen=True)
class Tls:
    """TLS credentials of a site, and the names of the sites that it accepts.

    The name of every site is the common name of its certificate. Host names are not verified, since
    only the common name counts.
    """

    certificate: str | os.PathLike[str]  # Certificate of this site, in PEM format.
    key: str | os.PathLike[str]  # Private key of this site, in PEM format.
    authority: str | os.PathLike[str]  # Certificate of the authority that signed the certificates of all sites.
    allowed: Collection[str]  # Names of the sites that may take part; this site's own may be among them.
    router: str | None = None  # Name of a router that may forward messages in the name of any site.


def check_certificate(name: str, tls: Tls) -> None:
    """Raise LinkError unless the certificate is usable and bears the site's name.

    A TLS handshake of the site with itself finds faults that other sites would not report.
    """
    import ssl  # Sites without TLS do not need it.

    for path in (tls.certificate, tls.key, tls.authority):
        if not os.path.isfile(path):
            raise LinkError(f"site {name}: the file {os.fspath(path)} is missing")
    ends = [ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)]
    ends[0].check_hostname = False
    try:
        for end in ends:
            end.verify_mode = ssl.CERT_REQUIRED
            end.load_cert_chain(tls.certificate, tls.key, password="")
            end.load_verify_locations(tls.authority)
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        sides = [ends[0].wrap_bio(down, up), ends[1].wrap_bio(up, down, server_side=True)]
        for side in sides * 4:
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
        subject = dict(pair for group in (sides[0].getpeercert() or {}).get("subject", ()) for pair in group)  # type: ignore
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", None) or error.reason
        raise LinkError(f"site {name}: {os.fspath(tls.certificate)} cannot be used: {reason}") from error
    if subject.get("commonName") != name:
        raise LinkError(
            f"site {name}: {os.fspath(tls.certificate)} is for {subject.get('commonName')!r}, not for {name!r}"
        )
