"""Problems for the judge: losses, kernels, and rows of any scale, which hypothesis draws."""

import numpy as np
from hypothesis import strategies as st
from judge import EpsilonInsensitive, Hinge, Odm, SquaredEpsilonInsensitive, SquaredHinge

powers = st.integers(-6, 6).map(lambda k: 10.0**k)
KERNELS = st.one_of(
    st.just({"kernel": "linear", "gamma": 1.0}),
    st.fixed_dictionaries({
        "kernel": st.just("poly"), "gamma": st.sampled_from([0.01, 0.5, 2.0]), "degree": st.integers(1, 3),
        "coef0": st.sampled_from([0.0, 1.0]),
    }),
    st.fixed_dictionaries({
        "kernel": st.sampled_from(["rbf", "laplacian"]), "gamma": st.sampled_from([1e-4, 0.1, 1.0, 30.0]),
    }),
)  # fmt: skip
LOSSES = st.one_of(
    st.builds(Hinge, st.floats(-4, 5).map(lambda k: 10.0**k)),
    st.builds(SquaredHinge, st.floats(-4, 5).map(lambda k: 10.0**k)),
    st.builds(
        Odm,
        st.floats(-2, 8).map(lambda k: 10.0**k),
        st.sampled_from([0.05, 0.5, 1.0]),
        st.sampled_from([0.0, 0.2, 0.9]),
    ),
)
# Two sites whose rows are opposed: the mean of their weights is zero, and they are far from it.
OPPOSED = np.array([[1e6], [1e6]]), np.array([0, 1]), np.ones(2)


@st.composite
def data(draw, max_rows=60, min_rows=2, n_classes=None):
    """Rows with ties, duplicates and constant columns, of any scale, with weights: easy to separate or not at all."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(min_rows, max_rows)), draw(st.integers(1, 4))
    n_classes = n_classes or draw(st.sampled_from([2, 2, 2, 3]))
    X = rng.normal(size=(n, d))
    shape = draw(
        st.sampled_from(
            ["any", "ties", "duplicates", "constant", "far", "columns", "equal", "long", "opposed", "cluster"]
        )
    )
    few = min(n - 1, draw(st.integers(1, 12)))  # rows unlike the others
    if shape == "ties":
        X = np.round(X)
    if shape == "duplicates":
        X = X[rng.integers(0, max(2, n // 4), n)]
    if shape == "constant":
        X[:, 0] = 1.0
    if shape == "far":
        X += 100.0
    if shape == "columns":
        X *= 10.0 ** rng.uniform(-3, 3, d)
    if shape == "equal":
        X[:] = X[0]
    if shape == "long":
        X[:few] *= 10.0 ** rng.uniform(0, 3, (few, 1))
    if shape == "cluster":
        X[:few] = 10.0 ** rng.uniform(0, 2) + 10.0 ** rng.uniform(-4, 0) * X[:few]
    X *= draw(powers)
    noise = draw(st.sampled_from([0.1, 1.0, 10.0]))
    y = np.digitize(
        rng.permutation(n) if shape == "far" else X[:, -1] / (abs(X[:, -1]).max() or 1) + noise * rng.normal(size=n),
        [0.0, 1.0][: n_classes - 1],
    )
    if shape == "opposed":  # long rows beside their like, of another class
        X[0] *= 10.0 ** rng.uniform(0, 3)
        X[1:few] = X[0] * (1 + 10.0 ** rng.uniform(-6, 0) * rng.normal(size=(few, d))[1:])
    y[:n_classes] = np.arange(n_classes)[:n]
    weights = {
        "one": np.ones(n), "any": rng.uniform(0.5, 2, n), "counts": rng.integers(1, 4, n).astype(float),
        "wild": 10.0 ** rng.uniform(-4, 4, n), "few": np.where(np.arange(n) < few, 10.0 ** rng.uniform(0, 4), 1.0),
    }[draw(st.sampled_from(["one", "any", "any", "counts", "wild", "few"]))]  # fmt: skip
    return X, y, weights


@st.composite
def regressions(draw, **sizes):
    """Rows as those of `data`, weights, and a loss of residuals, with its targets of any scale and half width."""
    X, _, weights = draw(data(**sizes))
    rng, n = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), len(X)
    shape = draw(st.sampled_from(["any", "any", "noise", "ties", "two", "constant", "outliers"]))
    t = 1.7 * X[:, -1] / (abs(X[:, -1]).max() or 1) - 0.3 * X[:, 0] / (abs(X[:, 0]).max() or 1)
    t = (t if shape != "noise" else 0.0) + draw(st.sampled_from([0.0, 1e-6, 0.1, 1.0])) * rng.normal(size=n)
    if shape == "ties":
        t = np.round(3 * t) / 3
    if shape == "two":
        t = np.where(t > 0, 1.0, -1.0)
    if shape == "constant":
        t[:] = 0.7
    if shape == "outliers":
        t[: max(1, n // 6)] *= 10.0 ** rng.uniform(0, 6)
    scale = 10.0 ** draw(st.sampled_from([0, 0, *range(-9, 10, 3)]))
    t = scale * (t + draw(st.sampled_from([0.0, 0.0, 0.5, -100.0, 1e5])))
    half = float(np.ptp(t)) / 2  # Rounding decides which rows are in such a band.
    epsilon = draw(st.sampled_from([half, *(scale * own for own in (0.0, 0.0, 1e-9, 1e-3, 0.1, 0.5, 10.0))]))
    C = 10.0 ** draw(st.floats(-4, 5))
    if draw(st.booleans()):
        return X, weights, SquaredEpsilonInsensitive(C, epsilon, t)
    return X, weights, EpsilonInsensitive(C * draw(st.sampled_from([1.0, scale])), epsilon, t)


def labels_of(y):
    classes = np.unique(y)
    return np.array([np.where(y == c, 1.0, -1.0) for c in (classes[1:] if len(classes) == 2 else classes)])
