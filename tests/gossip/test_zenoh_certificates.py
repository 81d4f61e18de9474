"""Sites with certificates on Zenoh: who gets in, who can speak as whom, and which certificates are refused."""

import socket
import time

import pytest
from authority import Authority
from contract_transport import LEASE
from waiting import free_port, wait_for
from zenoh_swarm import MARK, SWARM, publish, router, zenoh

from dimargin.gossip import zenoh_link
from dimargin.gossip.links import LinkError, Refused, Trouble
from dimargin.gossip.tls_certificates import Tls
from dimargin.gossip.zenoh_link import ZenohLink
from dimargin.gossip.zenoh_settings import SessionSettings

ALLOWED = ("alice", "bob", "carol")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def other_authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "other")


def spy(session):
    """Listens to everything, of others only."""
    heard = []
    remote = zenoh.Locality.REMOTE
    session.declare_subscriber(f"{SWARM}/**", lambda sample: heard.append(str(sample.key_expr)), allowed_origin=remote)
    session.declare_subscriber(
        f"{SWARM}/inbox/alice/*", lambda sample: heard.append(str(sample.key_expr)), allowed_origin=remote
    )
    return heard


def living(session):
    return {str(reply.ok.key_expr).split("/")[2] for reply in session.liveliness().get(f"{SWARM}/alive/*/*", timeout=1)}


def tls_of(authority, name, allowed=ALLOWED, root=None, **options):
    return Tls(*authority.member(name, **options), (root or authority).path, allowed)


def raw(tls):
    certificate, key = str(tls.certificate), str(tls.key)
    return {
        "root_ca_certificate": str(tls.authority),
        "listen_certificate": certificate,
        "listen_private_key": key,
        "connect_certificate": certificate,
        "connect_private_key": key,
    }


@pytest.fixture
def members(swarm, authority):
    """Alice and Bob, who hear each other; Carol is allowed too."""
    alice = swarm.join("alice", tls=tls_of(authority, "alice"))
    swarm.join("bob", tls=tls_of(authority, "bob"), connect=alice.listening)
    swarm.met("alice", "bob")
    swarm.letter("bob", "alice", b"first")
    return swarm


def test_members_hear_each_other(members, authority):
    carol = members.join("carol", tls=tls_of(authority, "carol"), connect=members.links["bob"].listening)
    members.met(*ALLOWED)
    for sender in ALLOWED:
        for to in set(ALLOWED) - {sender}:
            members.letter(sender, to, f"{sender} to {to}".encode())
    carol.close()
    wait_for(lambda: members.neighbours("alice") == ("bob",))


def test_a_member_cannot_speak_or_listen_as_another(members, authority):
    session = members.intruder(members.links["alice"].listening, **raw(tls_of(authority, "carol")))
    heard = spy(session)
    tokens = [session.liveliness().declare_token(f"{SWARM}/alive/{name}/{MARK}") for name in ("zoe", "alice", "carol")]
    members.met("alice", "bob")
    wait_for(lambda: members.neighbours("alice") == ("bob", "carol"))
    for key in ("inbox/alice/bob", "inbox/alice/alice", "inbox/alice/*", "inbox/*/bob", "inbox/**", "**"):
        publish(session, f"{SWARM}/{key}", b"forged")
    publish(session, f"{SWARM}/inbox/alice/carol", b"genuine")
    wait_for(lambda: ("carol", b"genuine") in members.received("alice"))
    members.letter("bob", "alice", b"secret")
    members.letter("alice", "bob", b"secret")
    assert not heard and members.received("alice") == [
        ("bob", b"first"),
        ("carol", b"genuine"),
        ("bob", b"secret"),
    ]
    assert members.neighbours("alice") == ("bob", "carol") and members.neighbours("bob") == ("alice", "carol")
    assert not members.failures("alice")
    del tokens


def test_who_has_a_certificate_but_is_not_listed_gets_nothing(members, authority):
    credentials = raw(tls_of(authority, "mallory"))
    session = members.intruder(members.links["alice"].listening, "tcp/127.0.0.1:0", **credentials)
    heard = spy(session)
    token = session.liveliness().declare_token(f"{SWARM}/alive/mallory/{MARK}")
    wait_for(lambda: session.info.transports())
    for key in ("inbox/alice/mallory", "inbox/alice/bob", "inbox/bob/*"):
        publish(session, f"{SWARM}/{key}", b"forged")
    assert living(session) == {"mallory"}
    # who joins is told mallory's address, at which it could do without a certificate
    members.join("carol", tls=tls_of(authority, "carol"), connect=members.links["alice"].listening)
    members.met(*ALLOWED)
    members.letter("carol", "alice", b"secret")
    members.letter("bob", "alice", b"secret")
    assert not heard and all(data != b"forged" for name in ALLOWED for _, data in members.received(name))
    assert all("mallory" not in members.neighbours(name) for name in ALLOWED)
    assert all(link.src.startswith("tls/") for link in session.info.links())
    del token


def test_a_member_that_one_end_does_not_list_is_reported_at_both_ends(swarm, authority):
    def reported(name):
        return [event.reasons for event in swarm.heard[name] if isinstance(event, Refused)]

    alice = swarm.join("alice", tls=tls_of(authority, "alice", ["bob"]))
    swarm.join("bob", tls=tls_of(authority, "bob"), connect=alice.listening)
    carol = swarm.join("carol", tls=tls_of(authority, "carol"), connect=alice.listening)
    wait_for(lambda: reported("alice") and reported("carol"))
    assert reported("alice") == [{"carol": "its certificate is valid, but this site's --allow does not list it"}]
    ((name, reason),) = reported("carol")[0].items()
    assert name == "alice" and "its --allow may not list this site" in reason
    swarm.met("bob", "carol")
    swarm.met("alice", "bob")
    assert not reported("bob") and len(reported("carol")) == 1
    carol.close()
    wait_for(lambda: reported("alice")[-1] == {})


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("who", ["stranger", "expired", "without certificate", "plain"])
def test_others_get_no_connection_in_either_direction(members, authority, other_authority, who):
    protocol, credentials = "tls", {}
    if who == "stranger":  # believes the members, who do not believe it
        credentials = raw(tls_of(other_authority, "carol", root=authority))
    elif who == "expired":
        credentials = raw(tls_of(authority, "carol", days=-1))
    elif who == "without certificate":
        credentials = {"root_ca_certificate": str(authority.path), "enable_mtls": False}
    else:
        protocol = "tcp"
    port = free_port()
    listen = f"tcp/127.0.0.1:{port}" if not credentials or "listen_certificate" not in credentials else None
    alice = members.links["alice"].listening[0].replace("tls/", f"{protocol}/")
    session = members.intruder([alice], listen or f"tls/127.0.0.1:{port}", **credentials)
    heard = spy(session)
    token = session.liveliness().declare_token(f"{SWARM}/alive/carol/{MARK}")
    # carol's own link goes to the intruder's address as well as to bob's
    carol = members.join(
        "carol",
        tls=tls_of(authority, "carol"),
        connect=[f"tls/127.0.0.1:{port}", *members.links["bob"].listening],
    )
    members.met(*ALLOWED)
    publish(session, f"{SWARM}/inbox/alice/carol", b"forged")
    publish(session, f"{SWARM}/inbox/carol/bob", b"forged")
    members.letter("carol", "alice", b"secret")
    members.letter("bob", "carol", b"secret")
    assert not session.info.transports() and not heard
    assert all(data != b"forged" for name in ALLOWED for _, data in members.received(name))
    carol.close()
    wait_for(lambda: members.neighbours("alice") == ("bob",))
    del token


def test_strangers_who_say_nothing_are_dropped_in_the_end(members, authority, monkeypatch):
    """After an hour, here after a third of a second: sooner they would keep members out."""
    monkeypatch.setattr(SessionSettings, "handshake_seconds", 0.3)
    carol = members.join("carol", tls=tls_of(authority, "carol"))
    host, _, port = carol.listening[0].partition("/")[2].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5.0) as stranger:
        assert stranger.recv(1) == b""


def test_without_descriptors_a_link_is_opened_again_once_strangers_have_hung_up(members, monkeypatch):
    bob, told, hung_up = members.links["bob"], members.heard["bob"], [0.2]
    monkeypatch.setattr(zenoh_link, "share_hung_up", lambda: hung_up[0])
    monkeypatch.setattr(zenoh_link, "is_descriptor_free", lambda: bob._life > 1)
    wait_for(lambda: any(isinstance(event, Trouble) for event in told))
    assert "no descriptor is free" in bob._trouble
    time.sleep(1.5 * LEASE)
    assert bob._life == 1 and bob.neighbours() == ("alice",)
    hung_up[0] = 0.3
    wait_for(lambda: bob._life == 2)
    members.met("alice", "bob")
    wait_for(lambda: [event.reason for event in told if isinstance(event, Trouble)][-1] == "")


def test_a_router_is_believed_if_it_is_named(swarm, authority):
    named = Tls(*authority.member("router"), authority.path, ALLOWED)
    port = free_port()
    with router(port, {"enable_mtls": True, "verify_name_on_connect": False, **raw(named)}):
        for name in ("alice", "bob"):
            tls = Tls(*authority.member(name), authority.path, ALLOWED, router="router")
            swarm.join(name, tls=tls, connect=[f"tls/127.0.0.1:{port}"], router=True)
        swarm.met("alice", "bob")
        swarm.letter("alice", "bob", b"round the corner")
        assert swarm.links["alice"].listening == ()
        swarm.close()


def test_a_certificate_that_others_would_refuse_is_refused_at_once(authority, other_authority, tmp_path):
    good = tls_of(authority, "alice")
    for tls, reason in (
        (tls_of(authority, "bob"), r"bob2\.pem is for 'bob', not for 'alice'"),
        (tls_of(authority, "alice", days=-1), r"alice-1\.pem cannot be used: certificate has expired"),
        (tls_of(other_authority, "alice", root=authority), r"cannot be used: "),
        (Tls(good.certificate, tls_of(authority, "bob").key, good.authority, ALLOWED), r"cannot be used: "),
        (Tls(good.certificate, tmp_path / "none", good.authority, ALLOWED), r"file .*none is missing"),
    ):
        link = ZenohLink("alice", SWARM, tls=tls)
        with pytest.raises(LinkError, match=rf"site alice: .*{reason}"):
            link.open(lambda event: None)
