"""Options of strategies in saved models."""

import pytest

from dimargin import DiODM, DivideAndConquer


@pytest.mark.parametrize(
    ("kind", "saved", "in_use"),
    [
        (DiODM, {"warm_start": "rescale", "level_tol": 0.2}, {"warm_start": "concatenate", "level_tol": 0.2}),
        (DivideAndConquer, {"theorem_1": False, "level_tol": 0.2}, {"theorem_1": True, "level_tol": 0.2}),
    ],
)
def test_options_that_moved_to_the_experiments_do_not_keep_a_model_from_loading(kind, saved, in_use):
    assert kind.from_saved(saved).get_params() == kind(level_tol=0.2).get_params()
    with pytest.warns(UserWarning, match="dimargin_bench"):
        assert kind.from_saved(in_use).get_params() == kind(level_tol=0.2).get_params()
