"""Link between sites on a real network by Zenoh, over TCP or mutually authenticated TLS.

Only this file, `zenoh_sender` and `zenoh_settings` use Zenoh.

Behaviour of Zenoh 1.10 over loopback, nearly all of it tested in `tests/gossip/test_zenoh.py` and
`tests/gossip/test_zenoh_certificates.py`:

* Sites that know one address find all others. A killed site is missed within tens of milliseconds,
  a frozen one after about the lease; a frozen site that resumes is found again.
* While a neighbour is frozen, a message to it blocks the thread that gives it to Zenoh until the
  lease ends, and sometimes the threads of other neighbours for most of that time. So every
  neighbour has a thread, and `send` never waits.
* With TLS, a peer without a valid certificate of the authority, or one that speaks plain TCP, gets
  no connection in either direction. A peer that has a certificate but is not in `allowed` gets a
  connection, over which Zenoh sends addresses of sites and nothing else: it receives nothing, is
  nobody's neighbour, and what it sends is dropped. Both ends of the connection know the common name
  in the other's certificate (`auth_identifier`), so both can report this.
* With TLS, access control at the receiving site drops messages and signs of life that a member
  sends in another member's name, and its subscriptions to messages for others. Names are the
  certificates' common names.
* Without TLS anyone who reaches the port can take any name, and read and write everything.
* Without TLS, at most `accept_pending` (100) connections may be in their handshake. With TLS only
  descriptors limit them. After each handshake that fails, Zenoh accepts no connection for 100 ms.
  With its handshake timeout of 10 s, 2,000 silent strangers therefore keep all members out; with a
  timeout of one hour they do no harm as long as descriptors are free. While all are taken, Zenoh
  closes no pending connection, even if the stranger has hung up.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from dimargin.gossip.known_sites import KnownSites
from dimargin.gossip.limits import LIMITS
from dimargin.gossip.links import Event, Failed, Link, LinkError, Neighbours, Received, Refused, Trouble
from dimargin.gossip.shortage import Shortage
from dimargin.gossip.tls_certificates import Tls, check_certificate
from dimargin.gossip.zenoh_sender import ROUND, Sender
from dimargin.gossip.zenoh_settings import NAME, SessionSettings, with_free_port
from dimargin.system.descriptors import is_descriptor_free, share_hung_up


class _NameTakenError(LinkError):
    """Error for a name that another live site has; trying again does not help."""


class ZenohLink(Link):
    """Link that carries bytes between the sites of a swarm.

    Parameters
    ----------
    name : str
        Name of this site, of letters, digits, dots, hyphens and underscores.
    swarm : str
        Name of the network; sites of different swarms do not hear one another.
    listen : sequence of str, optional
        Addresses such as "tcp/192.0.2.1:7447", or "tls/..." with `tls`; port 0 takes a free port.
        By default a free port that only this machine reaches.
    connect : sequence of str
        Addresses of some other sites; one of them is enough to find all sites. They need not be
        running yet.
    tls : Tls, optional
        Credentials by which connections are authenticated and encrypted.
    neighbours : collection of str, optional
        Sites to exchange messages with; all by default.
    lease : float
        Seconds of silence after which a site counts as gone.
    largest : int
        Most bytes that a message may have.
    router : bool
        Whether to connect to the router at `connect` instead of the other sites.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    ImportError
        If Zenoh is not installed.
    """

    def __init__(
        self,
        name: str,
        swarm: str,
        *,
        listen: Sequence[str] | None = None,
        connect: Sequence[str] = (),
        tls: Tls | None = None,
        neighbours: Collection[str] | None = None,
        lease: float = 2.0,
        largest: int = LIMITS.message,
        router: bool = False,
    ) -> None:
        self._settings = SessionSettings(name, swarm, listen, tuple(connect), tls, neighbours, lease, largest, router)
        self._zenoh = _import_zenoh()
        self.name, self.largest, self._swarm, self._lease = name, largest, swarm, lease
        self._listen = self._settings.addresses
        self._lock = threading.RLock()
        self._sites = KnownSites(name, None if neighbours is None else frozenset(neighbours))
        self._life = 0  # Number of sessions opened so far.
        self._mark = ""  # Start and id of the current session: marks of one name sort by their start.
        self._senders: dict[str, Sender] = {}
        self._refused = 0  # Number of messages from non-neighbours.
        self._deliver: Callable[[Event], None] = lambda event: None
        self._session: Any = None
        self._entities: list[Any] = []
        self._changing = threading.Lock()
        self._trouble = ""
        self._without_life: dict[str, float] = {}  # Connected sites without a sign of life, and since when.
        self._apart: dict[str, str] = {}  # Connected sites that exchange no messages, and why.
        self._closed = threading.Event()

    def open(self, deliver: Callable[[Event], None]) -> None:
        """Join the swarm.

        Raises
        ------
        LinkError
            If an address cannot be listened on, a file of `tls` cannot be used, or a live site of
            the swarm already has the name. The last takes longer than the lease to find out, since
            a site may succeed its killed self.
        """
        self._deliver = deliver
        if self._settings.tls is not None:
            check_certificate(self.name, self._settings.tls)
        self._join()
        threading.Thread(target=self._watch, daemon=True).start()

    def send(self, to: str, data: bytes) -> None:
        """Queue bytes for a site and return without waiting; the newest messages are kept.

        Raises
        ------
        ValueError
            If there are more than `largest` bytes.
        """
        if len(data) > self.largest:
            raise ValueError(f"{self.name} sends {to} {len(data)} bytes, expected at most {self.largest}")
        with self._lock:
            if self._session is None or not self._sites.is_wanted(to):
                self._sites.dropped[to] += 1
                return
            sender = self._senders.get(to)
            if sender is None or not sender.put(data):
                sender = self._senders[to] = Sender(
                    self._zenoh, self._session, self._key("inbox", to, self.name), self._lease, self.largest,
                    partial(self._next_number, to), partial(self._count_dropped, to),
                )  # fmt: skip
                sender.put(data)
                sender.start()

    def neighbours(self) -> tuple[str, ...]:
        """Return the sorted names of the live sites with which this one exchanges messages."""
        with self._lock:
            return self._sites.names()

    @property
    def listening(self) -> tuple[str, ...]:
        """Addresses to which others may connect, with the chosen ports."""
        return self._listen

    def status(self) -> dict[str, Any]:
        """Return facts that JSON can hold.

        Returns
        -------
        dict
            The addresses it is `listening` on; `dropped`, the number of messages that were not
            sent, by receiver; and `refused`, the number of messages from non-neighbours.
        """
        with self._lock:
            return {"listening": list(self._listen), "dropped": dict(self._sites.dropped), "refused": self._refused}

    def close(self) -> None:
        """Send the waiting messages within the lease, and leave the swarm; further calls do nothing."""
        self._closed.set()
        with self._changing:
            self._leave(time.monotonic() + self._lease)

    def _join(self) -> None:
        session = self._session = self._open_session()
        self._life += 1
        self._mark = f"{time.time_ns():020d}-{session.zid()}"
        try:
            on_sign, live = partial(self._receive_sign_of_life, self._life), session.liveliness()
            self._entities.append(session.declare_subscriber(self._key("inbox", self.name, "*"), self._receive))
            self._entities.append(live.declare_subscriber(self._key("alive", "*", "*"), on_sign, history=True))
            self._wait_for_name()
            self._entities.append(live.declare_token(self._key("alive", self.name, self._mark)))
        except BaseException as error:
            self._leave(0.0)
            if isinstance(error, self._zenoh.ZError):
                raise LinkError(f"site {self.name} cannot join the swarm {self._swarm}: {error}") from error
            raise

    def _leave(self, deadline: float) -> None:
        with self._lock:
            session, self._session = self._session, None
            entities, self._entities = self._entities, []
            senders = list(self._senders.values())
            self._sites.end_session()
        if session is None:
            return
        for sender in senders:
            sender.finish(deadline)
        for sender in senders:
            sender.join(2 * self._lease + 1)
        # Closing a session takes ten seconds while a neighbour is frozen.
        closing = threading.Thread(target=self._close_session, args=(session, entities), daemon=True)
        closing.start()
        closing.join(self._lease)

    def _close_session(self, session: Any, entities: list[Any]) -> None:
        with contextlib.suppress(self._zenoh.ZError):
            for entity in reversed(entities):
                entity.undeclare()
        with contextlib.suppress(self._zenoh.ZError):
            session.close()

    def _watch(self) -> None:
        """Open a new session when this one no longer connects all sites; try again while that fails.

        A site that is connected but has shown no sign of life for longer than the lease is one
        reason. This happens when only one end of a connection notices that it is lost, as when a
        site was frozen, and makes a new one before the other end notices. Zenoh 1.10 then joins the
        two connections, and one site knows nothing of the other. The other reason is a `Shortage`
        of descriptors.
        """
        silent: dict[str, float] = {}
        shortage = Shortage(self._lease)
        while not self._closed.wait(self._lease / 4):
            with self._changing, contextlib.suppress(self._zenoh.ZError):
                if self._closed.is_set():
                    return
                now = time.monotonic()
                self._report_refused(now)
                silent = {peer: silent.get(peer, now) for peer in self._silent_peers()}
                is_deaf = any(now - since > 1.5 * self._lease for since in silent.values())
                needs_descriptors = self._settings.tls is not None and bool(self._listen)
                is_free = not needs_descriptors or is_descriptor_free()
                is_due = shortage.is_due(now, is_free, self.neighbours(), share_hung_up)
                if self._session is None or is_deaf or is_due:
                    self._reopen()
                elif shortage.is_there:
                    self._report_trouble(
                        "no descriptor is free, so nobody can connect: each connection of a stranger takes one; "
                        "limit them by a firewall, or raise the hard limit of open files (ulimit -Hn)"
                    )
                else:
                    self._report_trouble("")

    def _report_trouble(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._deliver(Trouble(trouble))

    def _report_refused(self, now: float) -> None:
        """Report sites with valid certificates that are not allowed, here or, by their silence, at their end."""
        tls = self._settings.tls
        if tls is None or self._session is None:
            return
        names = {link.auth_identifier for link in self._session.info.links()} - {None, self.name, tls.router}
        with self._lock:
            silent = sorted(name for name in names if not self._sites.alive.get(name))
        self._without_life = {name: self._without_life.get(name, now) for name in silent}
        apart = {}
        for name, since in self._without_life.items():
            if name not in tls.allowed:
                apart[name] = "its certificate is valid, but this site's --allow does not list it"
            elif now - since > 1.5 * self._lease:
                apart[name] = (
                    "it is connected, but shows no sign of life: its --allow may not list this site, or its --swarm "
                    "is another one"
                )
        if apart != self._apart:
            self._apart = apart
            self._deliver(Refused(apart))

    def _silent_peers(self) -> set[str]:
        if self._session is None:
            return set()
        connected = {str(peer) for peer in self._session.info.peers_zid()}
        with self._lock:
            return self._sites.silent(connected)

    def _reopen(self) -> None:
        if self._session is not None:
            self._leave(0.0)
            self._deliver(Neighbours(()))
        try:
            self._join()
        except _NameTakenError as error:
            self._closed.set()
            self._deliver(Failed(error))
        except LinkError as error:
            self._report_trouble(str(error))

    def _open_session(self) -> Any:
        again = self._life > 0  # The addresses of an earlier session may not be free immediately.
        for attempt in range(20):
            listen = self._listen
            try:
                listen = tuple(with_free_port(address) for address in listen)
                config = self._zenoh.Config()
                for key, value in self._settings.configuration(listen).items():
                    config.insert_json5(key, json.dumps(value))
                session = self._zenoh.open(config)
            except (self._zenoh.ZError, OSError) as error:
                # Another process may have taken the free port in between.
                if "already in use" in str(error) and attempt < 19 and (again or listen != self._listen):
                    time.sleep(ROUND * attempt)
                    continue
                reason = str(error).split(" at /")[0].rpartition(": ")[2]
                if "already in use" in reason:
                    reason += "; end the program or site that listens there, or choose another port"
                where = ", ".join(listen or self._settings.connect)
                raise LinkError(f"site {self.name} cannot open its link ({where}): {reason}") from error
            self._listen = listen
            return session
        raise AssertionError("unreachable")

    def _wait_for_name(self) -> None:
        now = time.monotonic()
        others = self._settings.connect  # Through these, the other sites are found one by one.
        settled = now + (self._settings.settling * self._lease if others else 0.0)
        deadline = now + 1.5 * self._lease + 0.5  # A killed site's sign of life may outlive it by the lease.
        while (taken := self._is_taken()) or time.monotonic() < settled:
            if taken and time.monotonic() > deadline:
                raise self._name_is_taken()
            time.sleep(ROUND)

    def _is_taken(self) -> bool:
        replies = self._session.liveliness().get(self._key("alive", self.name, "*"), timeout=self._lease)
        return any([reply.ok is not None for reply in replies])  # A list, since all replies must be fetched.

    def _name_is_taken(self) -> LinkError:
        return _NameTakenError(f"swarm {self._swarm} already has a live site named {self.name}: names must differ")

    def _receive(self, sample: Any) -> None:
        """Deliver a message; runs in a thread of Zenoh and must not call Zenoh."""
        *inbox, sender = str(sample.key_expr).split("/")
        fits = inbox == [self._swarm, "inbox", self.name] and NAME.fullmatch(sender)
        is_put = sample.kind == self._zenoh.SampleKind.PUT
        number = bytes(sample.attachment) if sample.attachment is not None else b""
        with self._lock:
            is_valid = fits and is_put and self._sites.is_wanted(sender) and len(number) == 8
            if not (is_valid and self._sites.has_room_for(sender)):
                self._refused += 1
                return
            lost = self._sites.receive(sender, int.from_bytes(number, "little"))
        self._deliver(Received(sender, sample.payload.to_bytes(), lost))

    def _receive_sign_of_life(self, life: int, sample: Any) -> None:
        """Handle a sign of life, or its end; runs in a thread of Zenoh and must not call Zenoh."""
        parts = str(sample.key_expr).split("/")
        if len(parts) != 4 or not NAME.fullmatch(parts[2]) or not re.fullmatch(r"\d{20}-[0-9a-f]{1,32}", parts[3]):
            return
        name, mark = parts[2:]
        with self._lock:
            if life != self._life or self._session is None or not self._sites.has_room_for(name):
                return
            before = self._sites.names()
            self._sites.update(name, mark, sample.kind == self._zenoh.SampleKind.PUT)
            after = self._sites.names()
            if before != after:
                self._deliver(Neighbours(after))
            if name not in after and name in self._senders:
                self._senders.pop(name).finish(0.0)
            is_namesake = name == self.name and mark < self._mark and mark in self._sites.alive[name]
        if is_namesake:
            # Two sites started at the same time, or before their networks met: the later one ends,
            # unless the other was killed and only its sign of life is left for a while.
            timer = threading.Timer(1.5 * self._lease + 0.5, self._give_way, (mark,))
            timer.daemon = True
            timer.start()

    def _give_way(self, mark: str) -> None:
        with self._lock:
            taken = mark in self._sites.alive.get(self.name, ()) and self._session is not None
        if taken:
            self._deliver(Failed(self._name_is_taken()))

    def _next_number(self, to: str) -> int:
        with self._lock:
            return self._sites.next_number(to)

    def _count_dropped(self, to: str, messages: int) -> None:
        if messages:
            with self._lock:
                self._sites.dropped[to] += messages

    def _key(self, *parts: str) -> str:
        return "/".join((self._swarm, *parts))


def _import_zenoh() -> Any:
    try:
        import zenoh
    except ImportError as error:
        raise ImportError("a network of sites needs Zenoh: pip install 'dimargin[peers]'") from error
    return zenoh
