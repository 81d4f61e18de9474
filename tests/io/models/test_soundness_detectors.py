"""Model files of outlier detectors whose parts do not fit together are refused before anything is computed."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tampering import array_of, entry_of, refuse, tampered, told

import dimargin as dm
from dimargin.io.models import ModelFileError

CLOUD = np.random.default_rng(0).normal(size=(60, 3))
DETECTED = {
    "ball": (dm.CoreSetSVDD(), CLOUD),
    "ball of features": (dm.CoreSetSVDD(C=5.0, kernel="linear"), CLOUD),
    "plane": (dm.OneClassCoreSetSVM(), CLOUD),
    "sparse ball": (dm.CoreSetSVDD(), sp.csr_array(CLOUD)),
    "sparse plane": (dm.OneClassCoreSetSVM(kernel="poly", degree=2, coef0=1.0), sp.csr_array(CLOUD)),
    "given values": (dm.OneClassCoreSetSVM(kernel="precomputed"), CLOUD @ CLOUD.T),
}


@pytest.fixture
def detector(request, tmp_path):
    make, X = DETECTED[request.param]
    dm.save(make.fit(X), tmp_path / "m")
    assert np.array_equal(dm.load(tmp_path / "m").score_samples(X), make.score_samples(X))
    return tmp_path / "m"


def kernel(**values):
    return lambda h, a: h["steps"][0]["attributes"]["_transform"]["row_transform"]["kernel"].update(values)


def transform(**values):
    return lambda h, a: h["steps"][0]["attributes"]["_transform"]["row_transform"].update(values)


OF_ALL = {
    "longer coefficients": array_of("dual_coef_", lambda a: np.ones((1, 9999))),
    "fewer coefficients": array_of("dual_coef_", lambda a: a[:, :-1]),
    "flat coefficients": array_of("dual_coef_", np.ravel),
    "coefficients of two outputs": array_of("dual_coef_", lambda a: np.r_[a, a]),
    "whole coefficients": array_of("dual_coef_", lambda a: a.astype(np.int64)),
    "an infinite coefficient": entry_of("dual_coef_", np.inf),
    "a place beyond the rows": entry_of("support_", 60),
    "a negative place": entry_of("support_", -1, 0),
    "too few places": array_of("support_", lambda a: a[:-1]),
    "places of fractions": array_of("support_", lambda a: a.astype(np.float64)),
    "places of text": told(support_={"labels": ["a"], "dtype": "<U1"}),
    "no places": told(support_=None),
    "an offset that is no number": told(offset_=float("nan")),
    "an offset of text": told(offset_="low"),
    "a huge offset": told(offset_=10**400),
    "no offset": told(offset_=None),
    "an infinite square": told(_square=float("inf")),
    "no square": told(_square=None),
    "no transform": told(_transform=None),
    "a number for a transform": told(_transform=3),
    "no rows": told(_n_given=0),
    "half a row": told(_n_given=60.5),
    "rows of text": told(_n_given="many"),
    "another width": told(n_features_in_=4),
    "a width of text": told(n_features_in_="wide"),
    "no certificate": told(certificate_=None),
    "a gap of text": told(duality_gap_="small"),
    "no status": told(status_=None),
    "a number for an array": told(dual_coef_=3),
    "an array for a number": told(offset_={"array": "machine.dual_coef_"}),
}
OF_KERNEL = {
    "a gamma that is no number": kernel(gamma=float("nan")),
    "an infinite gamma": kernel(gamma=float("inf")),
    "no gamma": kernel(gamma=0),
    "a gamma of text": kernel(gamma="scale"),
    "half a degree": kernel(degree=0.5),
    "a huge degree": kernel(degree=10**400),
    "a degree of a minute": kernel(degree=1025),
    "an infinite constant": kernel(coef0=float("inf")),
    "a constant below zero": kernel(name="poly", coef0=-0.5),
    "a size that is no number": transform(size=float("nan")),
    "a negative size": transform(size=-1.0),
    "a huge size": transform(size=1e300),
    "an unknown kernel": kernel(name="sigmoid"),
    "values that were not given": lambda h, a: h["steps"][0]["parameters"].update({"kernel": "precomputed"}),
    "no kernel": told(_transform={"precomputed_kernel": True}),
}
OF_DENSE = {
    "wider vectors": array_of("support_vectors_", lambda a: np.c_[a, a]),
    "fewer vectors": array_of("support_vectors_", lambda a: a[:-1]),
    "no vectors": array_of("support_vectors_", lambda a: a[:0]),
    "whole vectors": array_of("support_vectors_", lambda a: a.astype(np.int64)),
    "nothing at all": lambda h, a: a.update(
        {f"machine.{name}": a[f"machine.{name}"][..., :0] for name in ("dual_coef_", "support_")}
        | {"machine.support_vectors_": np.zeros((0, 3))}
    ),
    "flat vectors": array_of("support_vectors_", np.ravel),
    "deep vectors": array_of("support_vectors_", lambda a: a[..., None]),
    "a vector that is no number": entry_of("support_vectors_", np.nan),
}
OF_CENTRE = {
    "a short centre": array_of("_transform.center", lambda a: a[:1]),
    "a whole centre": array_of("_transform.center", lambda a: a.astype(np.int64)),
    "a centre that is no number": entry_of("_transform.center", np.nan),
}
OF_SPARSE = {
    "a column beyond the last": entry_of("support_vectors_.indices", 3),
    "a negative column": entry_of("support_vectors_.indices", -1),
    "an offset beyond the data": entry_of("support_vectors_.indptr", 10**6),
    "offsets that fall": entry_of("support_vectors_.indptr", 0, 2),
    "fewer offsets": array_of("support_vectors_.indptr", lambda a: a[:-1]),
    "offsets that end with zero": entry_of("support_vectors_.indptr", 0),
    "offsets below zero": entry_of("support_vectors_.indptr", -5),
    "offsets of fractions": array_of("support_vectors_.indptr", lambda a: a.astype(np.float64)),
    "fewer numbers": array_of("support_vectors_.data", lambda a: a[:-1]),
    "whole numbers": array_of("support_vectors_.data", lambda a: a.astype(np.int64)),
    "a centre": lambda h, a: (a.update(centre=np.zeros(3)), transform(center={"array": "centre"})(h, a)),
    "an infinite number": entry_of("support_vectors_.data", np.inf),
}
OF_BALL = {
    "a negative radius": told(radius_=-1.0),
    "a radius that is no number": told(radius_=float("nan")),
    "an infinite radius": told(radius_=float("inf")),
    "no radius": told(radius_=None),
    "a middle of text": told(center_="here"),
}
OF_MIDDLE = {
    "a short middle": array_of("center_", lambda a: a[:1]),
    "a middle that is no number": entry_of("center_", np.nan),
}
OF_VALUES = {
    "vectors of values": array_of("support_vectors_", lambda a: np.ones((len(a), 3))),
    "a kernel of rows that there are not": told(
        _transform={
            "row_transform": {
                "kernel": {"name": "rbf"},
                "center": None,
                "dtype": "float64",
                "difference": False,
                "size": 1.0,
            }
        }
    ),
    "fewer columns than rows": told(n_features_in_=59),
    "a ball of values": lambda h, a: (
        h["steps"][0].update({"class": "CoreSetSVDD"}),
        h["steps"][0]["attributes"].update({"radius_": 1.0, "center_": None}),
    ),
}
OF = {
    "ball": OF_ALL | OF_KERNEL | OF_DENSE | OF_CENTRE | OF_BALL,
    "ball of features": OF_ALL | OF_KERNEL | OF_DENSE | OF_BALL | OF_MIDDLE,
    "plane": OF_ALL | OF_KERNEL | OF_DENSE | OF_CENTRE,
    "sparse ball": OF_ALL | OF_KERNEL | OF_SPARSE | OF_BALL,
    "sparse plane": OF_ALL | OF_KERNEL | OF_SPARSE,
    "given values": OF_ALL | OF_VALUES,
}


@pytest.mark.parametrize(("detector", "lie"), [(kind, lie) for kind in OF for lie in OF[kind]], indirect=["detector"])
def test_a_detector_that_lies_is_refused(detector, lie, request):
    kind = request.node.callspec.params["detector"]
    refuse(detector, OF[kind][lie])


JUNK = st.sampled_from([None, True, 0, -1, 0.5, 1e300, 10**400, float("nan"), "x", [], {}, {"list": []}, {"tuple": []}])


def leaves(value, path=()):
    """Paths to all that is no container."""
    if isinstance(value, (dict, list)):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in list(pairs):
            yield from leaves(inner, (*path, key))
    else:
        yield path


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(sorted(DETECTED)), junk=JUNK, data=st.data())
def test_whatever_stands_in_a_header_is_refused_or_scores(tmp_path_factory, kind, junk, data):
    make, X = DETECTED[kind]
    path = tmp_path_factory.mktemp("junk") / "m"
    dm.save(make.fit(X), path)

    def lie(header, arrays):
        attributes = header["steps"][0]["attributes"]
        *to, last = data.draw(st.sampled_from(sorted(leaves(attributes), key=str)))
        for key in to:
            attributes = attributes[key]
        attributes[last] = junk

    tampered(path, lie)
    try:
        loaded = dm.load(path)
    except ModelFileError as error:
        assert "not a valid model" in str(error)
    else:
        assert loaded.score_samples(X).shape == (60,)
