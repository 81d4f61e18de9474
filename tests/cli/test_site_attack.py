"""Real sites, to which two dozen hostile members talk while they learn: they end as without them."""

import contextlib
import json
import random
import time

import numpy as np
import pytest
from authority import Authority
from fuzz.damaged_messages import plain
from fuzz.hostile_messages import KINDS, SIGNED, hostile
from site_processes import ALPHA, end, objective
from text_files import write_csv
from waiting import wait_for

import dimargin

zenoh = pytest.importorskip("zenoh", reason="eclipse-zenoh is not installed: pip install 'dimargin[peers]'")

from dimargin.gossip.links import Received  # noqa: E402
from dimargin.gossip.tls_certificates import Tls  # noqa: E402
from dimargin.gossip.zenoh_link import ZenohLink  # noqa: E402

SITES = ["north", "east", "south"]
N_EVES = 24  # each says one hostile thing of a kind of its own to every site: after that she is not heard
GOSSIP = ("--alpha", str(ALPHA))
BALL = ("--algorithm", "coreset", "--share-rows", "--kind", "svdd", "--kernel", "linear", "--C", "inf", "--tol", "1e-9")


class Eves:
    """Members who say what they like, and one who listens: the genuine messages that theirs are made of."""

    def __init__(self, tmp_path, addresses, authority):
        self._open, self._authority, self._addresses = contextlib.ExitStack(), authority, addresses
        self._sessions, self._events, self.said = {}, [], 0
        tls = None
        if authority is not None:
            certificate, key = authority.member("listener")
            tls = Tls(certificate, key, authority.path, SITES)
        self._link = ZenohLink("listener", "dimargin", connect=addresses, tls=tls)
        self._link.open(self._events.append)
        self._open.callback(self._link.close)

    def stop_listening(self):
        self._link.close()

    def genuine(self, kind):
        """The longest message of a kind that a site has sent: of core-sets, one with points."""
        received = (event.data for event in list(self._events) if isinstance(event, Received))
        return max((data for data in received if plain(data)["kind"] == kind), key=len, default=None)

    def _session(self, name):
        """One for all of them without certificates, with certificates each has her own."""
        key = name if self._authority is not None else ""
        if key not in self._sessions:
            settings = {"connect/endpoints": self._addresses, "listen/endpoints": [],
                        "scouting/multicast/enabled": False, "transport/shared_memory/enabled": False}  # fmt: skip
            if self._authority is not None:
                certificate, private = (str(path) for path in self._authority.member(name))
                settings["transport/link/tls"] = {
                    "enable_mtls": True, "verify_name_on_connect": False,
                    "root_ca_certificate": str(self._authority.path), "connect_certificate": certificate,
                    "connect_private_key": private,
                }  # fmt: skip
            config = zenoh.Config()
            for path, value in settings.items():
                config.insert_json5(path, json.dumps(value))
            self._sessions[key] = session = zenoh.open(config)
            self._open.callback(session.close)
            wait_for(lambda: len(session.info.peers_zid()) >= len(SITES), "the sites to meet an eve")
        return self._sessions[key]

    def say(self, kind, what, times=1):
        """Each of the next eves says something hostile, made of genuine messages of a kind, to all sites."""
        names = []
        for index, hostility in enumerate(what):
            name = f"eve{self.said}"
            self.said += 1
            names.append(name)
            for site in SITES:
                data = hostile(self.genuine(kind), random.Random(index), hostility)
                for number in range(times):
                    self._session(name).put(
                        f"dimargin/inbox/{site}/{name}", data, attachment=(number + 1).to_bytes(8, "little"),
                        congestion_control=zenoh.CongestionControl.BLOCK,
                    )  # fmt: skip
        return names

    def close(self):
        self._open.close()


def traffic(site, name):
    return site.status().get("network", {}).get("traffic", {}).get(name, {"messages_in": 0, "undecodable": 0})


def chosen(kind, n, is_signed=False):
    """Kinds of hostility that no site can take for sound: those of the kind of message itself, and others."""
    within_bounds = {"field-twice", "bits-flipped", "other-length", "denormal", "wide", "lost-memory", "wrong-value",
                     "wrong-quiet", "other-type", "huge-integers", "no-rows", "wrong-digest", "strange-sites",
                     "rows-of-others", "impossible-limits", "bad-text", "equal-labels", "other-signatures",
                     "other-certificates"}  # fmt: skip
    kinds = [*(SIGNED if is_signed else ()), *reversed(KINDS[kind])]
    return [what for what in kinds if what not in within_bounds][:n]


@pytest.mark.slow
@pytest.mark.nightly_after(1)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    ("protocol", "flags"), [("tcp", BALL), ("tls", BALL), ("tls", GOSSIP)],
    ids=["core-set-tcp", "core-set-tls", "gossip-tls"],
)  # fmt: skip
def test_sites_under_attack_end_with_the_model_that_they_reach_without(
    tmp_path, started, protocol, flags
):  # fmt: skip
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 3)), np.arange(90) % 2
    X[:, 0] += 1.5 * y
    authority = Authority(tmp_path, "authority") if protocol == "tls" else None
    own = ("--sites", "3", *flags)
    members = [*SITES, "listener", *(f"eve{k}" for k in range(N_EVES))]

    def begin(k):
        name = SITES[k]
        write_csv(tmp_path / f"{name}.csv", X[k::3], np.array(["no", "yes"])[y[k::3]])
        proof = ()
        if authority is not None:
            certificate, key = authority.member(name)
            proof = ("--certificate", str(certificate), "--key", str(key), "--authority", str(authority.path))
            proof += tuple(text for other in members if other != name for text in ("--allow", other))
        site = started(name, *own, *proof, protocol=protocol)
        wait_for(lambda: site.status().get("network", {}).get("link", {}).get("listening"), f"{name} to begin")
        return site

    sites = [begin(k) for k in range(3)]
    addresses = [site.status()["network"]["link"]["listening"][0] for site in sites]
    eves, learnt = Eves(tmp_path, addresses, authority), "exchange" if flags is GOSSIP else "candidates"
    try:
        wait_for(lambda: eves.genuine("card") is not None and eves.genuine(learnt) is not None, "genuine messages")
        is_signed = authority is not None and flags is BALL
        names = eves.say("card", chosen("card", N_EVES // 2))
        names += eves.say(learnt, chosen(learnt, N_EVES // 2, is_signed))
        assert len(names) == N_EVES >= 20
        eves.stop_listening()  # sites wait for all who are there before they say that they have agreed
        wait_for(lambda: all(traffic(site, name)["messages_in"] for site in sites for name in names), "the attack")
        wait_for(lambda: all(site.status()["steps"] for site in sites), "steps")
        ready = time.monotonic() + 2.0
        wait_for(lambda: time.monotonic() > ready and all(site.status().get("converged") for site in sites), "the end")
    finally:
        eves.close()
    for site in sites:
        refused = set(site.status()["refused"])
        undecodable = {name for name in names if traffic(site, name)["undecodable"]}
        assert not refused & set(SITES) and refused | undecodable >= set(names) and len(refused & set(names)) >= 16
    assert end(sites) == [0, 0, 0]
    logs = [line["what"] for site in sites for line in site.log()]
    assert not {"broken", "withheld"} & set(logs)
    for site in sites:
        scaler, machine = dimargin.load(site.folder.model)[0], dimargin.load(site.folder.model)[-1]
        rows = scaler.transform(X)
        np.testing.assert_allclose(rows, (X - X.min(axis=0)) / np.ptp(X, axis=0), atol=1e-12)
        if flags is GOSSIP:
            labels = np.array(["no", "yes"])[y]
            assert machine.classes_.tolist() == ["no", "yes"]
            assert objective(rows, labels, machine) <= 1.02 * _optimum(rows, np.where(y, 1.0, -1.0))
        else:
            expected = rows[dimargin.minimum_enclosing_ball(rows, 0).core_set_indices]
            found = machine.support_vectors_
            np.testing.assert_allclose(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)], atol=1e-12)


def _optimum(rows, signs):
    from sklearn.svm import LinearSVC

    wide = np.column_stack([rows, np.ones(len(rows))])
    machine = LinearSVC(loss="hinge", C=1 / (ALPHA * len(rows)), fit_intercept=False, tol=1e-8, max_iter=10**6)
    w = machine.fit(wide, signs).coef_[0]
    return ALPHA / 2 * w @ w + np.maximum(0, 1 - signs * (wide @ w)).mean()
