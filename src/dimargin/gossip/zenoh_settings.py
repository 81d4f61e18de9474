"""Configuration of the Zenoh session of a site: addresses, times, certificates and access control."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dimargin.gossip.tls_certificates import Tls

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Pattern of the names of sites and swarms, which are parts of Zenoh's keys."""


@dataclass(frozen=True)
class SessionSettings:
    """Parameters of a `ZenohLink`, which documents them, and Zenoh's configuration for them.

    Raises ValueError for an invalid parameter.
    """

    name: str
    swarm: str
    listen: Sequence[str] | None
    connect: Sequence[str]
    tls: Tls | None
    neighbours: Collection[str] | None
    lease: float
    largest: int
    router: bool

    settling: ClassVar[float] = 0.1  # Share of the lease in which a site finds the others, before its name is used.
    handshake_seconds: ClassVar[float] = 3600.0  # Most seconds of a TLS handshake, for the reason in `zenoh_link`.

    def __post_init__(self) -> None:
        tls, router = self.tls, self.router
        allowed = () if tls is None else tls.allowed
        _check_names(name=(self.name,), swarm=(self.swarm,), neighbours=self.neighbours or (), allowed=allowed)
        if not 0 < self.lease <= 3600:
            raise ValueError(f"lease must be more than 0 and at most 3600 seconds, got {self.lease!r}")
        if not 0 < self.largest <= 2**31:
            raise ValueError(f"largest must be between 1 and 2^31 bytes, got {self.largest!r}")
        if router and (not self.connect or self.listen):
            raise ValueError("with a router, connect must name its address, and listen must be empty")
        if router and tls is not None and tls.router is None:
            raise ValueError("with a router and tls, tls.router must be the name in the router's certificate")
        if tls is not None and not set(allowed) - {self.name} and not router:
            raise ValueError(f"tls.allowed must name another site than {self.name}")
        for name, addresses in (("listen", self.addresses), ("connect", self.connect)):
            for address in addresses:
                _check_address(name, address, self.protocol)

    @property
    def protocol(self) -> str:
        """Protocol of the addresses."""
        return "tcp" if self.tls is None else "tls"

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses to listen on; port 0 means any free port."""
        if self.listen is None:
            return () if self.router else (f"{self.protocol}/127.0.0.1:0",)
        return tuple(self.listen)

    def configuration(self, listen: Sequence[str]) -> dict[str, Any]:
        """Return Zenoh's configuration by key, for a session that listens on these addresses."""
        lease, tls = self.lease, self.tls
        handshake = "" if tls is None else f"#tls_handshake_timeout_ms={round(self.handshake_seconds * 1000)}"
        settings = {
            "mode": "client" if self.router else "peer",
            "listen/endpoints": [address + handshake for address in listen],
            "connect/endpoints": list(self.connect),
            "connect/retry": {"period_init_ms": 200, "period_max_ms": 4000, "period_increase_factor": 2},
            "scouting/delay": round(self.settling * lease * 1000),
            "scouting/multicast/enabled": False,  # Multicast would find, and be found by, strangers.
            "transport/link/protocols": [self.protocol],
            "transport/unicast/open_timeout": round(lease * 2000),
            "transport/unicast/accept_timeout": round(lease * 2000),
            "transport/link/tx/lease": round(lease * 1000),
            "transport/link/tx/queue/congestion_control/block/wait_before_close": round(lease * 1e6),
            "transport/link/rx/max_message_size": self.largest + 2**16,
            "transport/shared_memory/enabled": False,  # It takes 16 MiB per site, and sites rarely share a machine.
        }
        if tls is not None:
            settings["transport/link/tls"] = _tls_settings(tls)
            settings["access_control"] = _access_control(self.name, self.swarm, tls)
        return settings


def _check_names(**names: Collection[str]) -> None:
    for what, texts in names.items():
        if isinstance(texts, str):
            raise ValueError(f"{what} must be several names, got the single text {texts!r}")
        for text in texts:
            if not isinstance(text, str) or not NAME.fullmatch(text):
                raise ValueError(
                    f"{what} must begin with a letter or digit and have only letters, digits, dots, hyphens and "
                    f"underscores, got {text!r}"
                )


def _check_address(name: str, address: str, protocol: str) -> None:
    """Raise ValueError for an address that is not one, or whose protocol needs, or excludes, certificates."""
    is_address = re.fullmatch(r"(tcp|tls)/[^\s#?]+:\d+", address) and int(address.rpartition(":")[2]) <= 65535
    if not is_address:
        raise ValueError(f"{name}: expected an address such as {protocol}/192.0.2.1:7447, got {address!r}")
    if address.startswith("tls/") and protocol == "tcp":
        raise ValueError(f"{name}: {address!r} needs --certificate, --key, --authority and --allow (tls in Python)")
    if address.startswith("tcp/") and protocol == "tls":
        raise ValueError(f"{name}: {address!r} is not encrypted; with a certificate, addresses begin with 'tls/'")


def with_free_port(address: str) -> str:
    """Return the address with a free port in place of port 0, since Zenoh does not tell which one it takes."""
    head, _, port = address.rpartition(":")
    if int(port) != 0:
        return address
    host = head.partition("/")[2].strip("[]")
    family, kind, protocol, _, endpoint = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as taken:
        taken.bind(endpoint)
        return f"{head}:{taken.getsockname()[1]}"


def _tls_settings(tls: Tls) -> dict[str, Any]:
    certificate, key = os.fspath(tls.certificate), os.fspath(tls.key)
    return {
        "root_ca_certificate": os.fspath(tls.authority),
        "enable_mtls": True,
        "listen_certificate": certificate,
        "listen_private_key": key,
        "connect_certificate": certificate,
        "connect_private_key": key,
        "verify_name_on_connect": False,
        "close_link_on_expiration": True,
    }


def _access_control(name: str, swarm: str, tls: Tls) -> dict[str, Any]:
    """Return rules that limit the traffic with every other site to messages between the two of them."""
    # Each holder of a certificate may send in this name; a router forwards messages in all names.
    names = {other: other for other in tls.allowed if other != name}
    if tls.router is not None:
        names[tls.router] = "*"
    watch = ["declare_liveliness_subscriber", "liveliness_query"]
    rules: list[dict[str, Any]] = []
    for holder, sender in names.items():
        for index, (flow, messages, key) in enumerate(
            (
                ("ingress", ["put"], f"inbox/{name}/{sender}"),
                ("ingress", ["declare_subscriber"], f"inbox/{sender}/*"),
                ("ingress", ["liveliness_token"], f"alive/{sender}/*"),
                ("ingress", watch, "alive/*/*"),
                ("egress", ["put"], f"inbox/{sender}/{name}"),
                ("egress", ["declare_subscriber"], f"inbox/{name}/*"),
                ("egress", ["liveliness_token"], f"alive/{name}/*"),
                ("egress", watch, "alive/*/*"),
            )
        ):
            traffic = {"flows": [flow], "messages": messages, "key_exprs": [f"{swarm}/{key}"]}
            rules.append({"id": f"{holder}/{index}", "permission": "allow", **traffic})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": [{"id": holder, "cert_common_names": [holder]} for holder in names],
        "policies": [{"subjects": [holder], "rules": [f"{holder}/{index}" for index in range(8)]} for holder in names],
    }
