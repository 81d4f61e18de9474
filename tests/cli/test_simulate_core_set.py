"""``dimargin simulate coreset``."""

import json

import pytest

SMALL = ["--nodes", 9, "--dimension", 4, "--points", 3]


@pytest.fixture
def simulate(dimargin):
    """What a run says as JSON, and on standard error."""

    def run(*arguments):
        status, out, err = dimargin("simulate", "coreset", *arguments, "--json")
        assert status == 0, err
        return json.loads(out), err

    return run


@pytest.mark.slow
def test_the_papers_simulation(simulate):
    facts, _ = simulate()
    assert facts["status"] == "converged" and facts["different_core_sets"] == 1
    assert facts["agreed_after_rounds"] <= 30 and facts["radius_ratio"] >= 0.995
    assert facts["farthest_point_ratio"] <= 1.1 and facts["core_set"] == 10 and facts["points_shared"] <= 100


@pytest.mark.parametrize("topology", ["ring", "changing"])
def test_exact_balls_and_a_picture(simulate, tmp_path, topology):
    picture, network = tmp_path / "consensus.png", ["--topology", topology, "--edge-probability", 0.2, "--loss", 0.2]
    facts, err = simulate(*SMALL, *network, "--epsilon", 0, "--plot", picture)
    assert facts["radius_ratio"] == pytest.approx(1) and facts["farthest_point_ratio"] == pytest.approx(1)
    assert facts["points"] == 27 and picture.read_bytes().startswith(b"\x89PNG") and "are drawn in" in err


def test_crashes_and_seeds(simulate):
    runs = [simulate(*SMALL, "--topology", "torus", "--crash", 2, "--max-iter", 40)[0] for _ in range(2)]
    assert all(run.pop("seconds") >= 0 for run in runs) and runs[0] == runs[1]
    assert "2 of 2 crashes did not happen" in simulate(*SMALL, "--topology", "ring", "--crash", 2)[1]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--nodes", 0], "nodes must be"),
        (["--epsilon", 2], "epsilon must be"),
        (["--edge-probability", 0], "edge_probability must be"),
        (["--topology", "square"], "topology must be one of"),
        (["--loss", 2], "loss must be a probability"),
        (["--plot", "no/such/folder/x.png"], "does not exist"),
        (["--quiet-rounds", -1], "quiet_rounds must be"),
    ],
)
def test_wrong_usage(dimargin, flags, words):
    status, _, err = dimargin("simulate", "coreset", *flags)
    assert status == 2 and words in " ".join(err.replace("\u2502", " ").split())
