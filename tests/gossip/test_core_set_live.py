"""Core-set consensus for real: sites that talk over Zenoh on loopback end with the set of the simulator."""

import threading

import numpy as np
import pytest
from waiting import free_port, wait_for

pytest.importorskip("zenoh", reason="eclipse-zenoh is not installed")

from contract_transport import LEASE, PATIENCE

from dimargin import minimum_enclosing_ball
from dimargin.gossip.live import LiveSite
from dimargin.gossip.programs.candidates import Name
from dimargin.gossip.programs.core_set_consensus import CoreSetConsensus
from dimargin.gossip.programs.core_set_settings import CoreSetSettings
from dimargin.gossip.zenoh_link import ZenohLink


@pytest.mark.parametrize("size", [None, 5])
def test_sites_agree_over_zenoh_and_one_returns_from_its_state(tmp_path, size):
    X = np.random.default_rng(0).normal(size=(60, 4))
    settings = CoreSetSettings(epsilon=0.0, size=size, interval=0.02, quiet_rounds=10**6)
    address, stops, threads = f"tcp/127.0.0.1:{free_port()}", {}, {}
    programs = {name: CoreSetConsensus(name, X[i::3], np.ones(20), settings) for i, name in enumerate("abc")}

    def begin(name, program):
        options = {"listen": [address]} if name == "a" else {"connect": [address]}
        link = ZenohLink(name, "coresets", lease=LEASE, **options)
        site, stops[name] = LiveSite(program, link, state=tmp_path / name), threading.Event()
        threads[name] = threading.Thread(target=site.run, args=(stops[name],))
        threads[name].start()

    def end(*names):
        for name in names:
            stops[name].set()
        for name in names:
            threads[name].join(PATIENCE)

    def agreed():
        names = {p.chosen.points.names if p.chosen else None for p in programs.values()}
        return len(names) == 1 and None not in names

    ball = minimum_enclosing_ball(X, 0)
    expected = {Name("abc"[k % 3], k // 3) for k in ball.core_set_indices.tolist()}
    try:
        for name, program in programs.items():
            begin(name, program)
        wait_for(lambda: agreed() and set(programs["a"].chosen.points.names) == expected)
        end("b")
        shared = programs["b"].rows_shared
        programs["b"] = CoreSetConsensus("b", X[1::3], np.ones(20), settings)
        begin("b", programs["b"])
        wait_for(lambda: programs["b"].chosen is not None and agreed())
        assert programs["b"].rows_shared >= shared > 0
        assert programs["c"].chosen.value == pytest.approx(ball.radius**2)
    finally:
        end(*threads)
