"""Categories that training has not seen: who counts them, in frames of each kind, and which values are missing."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from dimargin.estimators.preprocessing import CategoryEncoder
from dimargin.estimators.preprocessing.category_encoder import unseen_categories

JOBS = ["nurse", "smith", None, "smith", "cook"]
NEW = ["pilot", "smith", None, "judge", "pilot"]
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}
if tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 7):
    FRAMES["arrow"] = pa.table
SAID = (
    "in 3 of 5 rows, column 'job' has a category that the training data did not have and that the model ignores: "
    "'pilot', 'judge'"
)


def columns(encoder):
    numbers = make_pipeline(SimpleImputer(), OneHotEncoder())
    return make_column_transformer((encoder, ["job"]), (numbers, ["zip"]), sparse_threshold=0)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("categories", ["auto", [np.array(["cook", "nurse", "smith"], dtype=object)]])
def test_an_encoder_warns_of_texts_that_it_was_not_fitted_to(kind, categories):
    """Missing texts are not counted, whether the training rows had some or not."""
    train, new = ({"job": jobs, "zip": [1.0, 2.0, 2.0, None, 1.0]} for jobs in (JOBS, NEW))
    step = columns(CategoryEncoder(handle_unknown="ignore", categories=categories)).fit(FRAMES[kind](train))
    with pytest.warns(UserWarning) as caught:
        rows = step.transform(FRAMES[kind](new))
    assert [str(one.message) for one in caught] == [SAID]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        silent = columns(OneHotEncoder(handle_unknown="ignore", categories=categories)).fit(FRAMES[kind](train))
        assert step.transform(FRAMES[kind](train)).shape == rows.shape
        np.testing.assert_array_equal(rows, silent.transform(FRAMES[kind](new)))
    assert [*unseen_categories(silent, FRAMES[kind](new))] == [SAID]


def test_numbers_and_rare_categories_are_counted_too():
    frame = pd.DataFrame({"zip": [1.0, 2.0, 2.0, 2.0, np.nan]})
    encoder = CategoryEncoder(handle_unknown="infrequent_if_exist", min_frequency=2).fit(frame)
    with pytest.warns(UserWarning, match="in 2 of 3 rows, column 'zip' .* encodes as an infrequent one: 3.0, 4.0$"):
        encoder.transform(pd.DataFrame({"zip": [3.0, 4.0, np.nan]}))
    array = OneHotEncoder(handle_unknown="ignore").fit(frame.to_numpy())
    assert [text.split(" has")[0] for text in unseen_categories(array, np.array([[5.0], [2.0]]))] == [
        "in 1 of 2 rows, column 0"
    ]


def test_only_three_categories_are_listed_and_shortened():
    encoder = OneHotEncoder(handle_unknown="ignore").fit(pd.DataFrame({"job": ["a"]}))
    (text,) = unseen_categories(encoder, pd.DataFrame({"job": ["x" * 1000, *"bcdeb"]}))
    assert text.startswith("in 6 of 6 rows") and text.endswith("'b', 'c' and 2 more") and len(text) < 250
    assert [*unseen_categories(SimpleImputer().fit([[0.0]]), np.zeros((1, 1)))] == []
