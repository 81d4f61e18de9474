"""Messages that no sound site sends, made of genuine ones: damaged ones, and false ones of every kind.

Every function of a table is given the fields of a genuine message, and returns those of a hostile
one, or bytes.
"""

import math
import zlib

import numpy as np

from dimargin.gossip.programs.candidates import points_of

from .damaged_messages import (
    ANY,
    FLAT,
    NUMBERS,
    array,
    arrays_of,
    is_array,
    packed,
    plain,
    spoilt,
    values_of,
    without_field,
)


def _labels(choose):
    def of(fields, rng):
        fields["labels"] = choose(fields["labels"], rng)
        return fields

    return of


def _names_of_sites(fields, rng):
    fields["rows"] = {f"site{k}": [1, 1] for k in range(rng.choice([1025, 2000]))}
    return fields


def _rows_of_others(fields, rng):
    versions = [2**64 - 1, 2**63, 2**53 + 1, 2**53, 2**40]
    fields["rows"] = {name: [rng.choice(versions), rng.choice([0, 2**64 - 1, 2**53])] for name in fields["rows"]}
    return fields


def _wrong_counts(fields, rng):
    name = rng.choice(list(fields["rows"]))
    fields["rows"][name] = rng.choice(
        [[], [1], [1, 2, 3], [-1, 2], [1, -2], [1.5, 2], [True, 2], None, {}, [math.nan, 1]]
    )
    return fields


def _limits(fields, rng):
    low = values_of(fields["low"])
    low, high = rng.choice(
        [
            (low + 1e9, low),
            (low, low[:-1]),
            (low - 1e300, low + 1e300),
            (low * 0, low * 0 + 1e-310),
            (np.append(low, -1e160), np.append(low, 1)),
        ]
    )
    fields["low"], fields["high"] = array(low), array(high)
    return fields


def _terms(fields, rng):
    name = rng.choice(list(fields["terms"]))
    fields["terms"][name] = rng.choice([None, True, 1, 0, math.nan, math.inf, "x" * 5000, 2**64 - 1, -1e300])
    if rng.random() < 0.3:
        fields["terms"] = {f"term{k}": k for k in range(rng.choice([1, 65, 1000]))}
    return fields


def _feature_names(fields, rng):
    fields["feature_names"] = rng.choice([[], ["a"], ["a\x00"] * 3, None, ["x" * 5000] * 3, [1, 2, 3]])
    return fields


def _equal_names(fields, rng):
    fields["feature_names"] = ["a"] * values_of(fields["low"]).size
    return fields if len(fields["feature_names"]) > 1 else b""


def _own_labels(fields, rng):
    fields["own_labels"] = rng.choice(
        [["none of them"], [math.nan], list(range(1025)), None, [[]], "text", [2**64 - 1]]
    )
    return fields


def _wide(fields, rng):
    width = rng.choice([10, 1000])
    fields["low"], fields["high"] = array(np.zeros(width)), array(np.full(width, rng.choice([1.0, math.nan, 1e160])))
    return fields


CARD = {
    "nan-label": _labels(lambda labels, rng: [*labels, math.nan]),
    "infinite-label": _labels(lambda labels, rng: [*labels, rng.choice([math.inf, -math.inf, 1e300, 2**63])]),
    "too-many-labels": _labels(lambda labels, rng: rng.choice([list(range(1025)), [f"l{k}" for k in range(1025)]])),
    "labels-of-two-kinds": _labels(lambda labels, rng: [*labels, "text", 1]),
    "equal-labels": _labels(lambda labels, rng: [float(k) if isinstance(k, int) else k + "\x00" for k in labels]),
    "too-many-sites": _names_of_sites,
    "rows-of-others": _rows_of_others,
    "wrong-counts": _wrong_counts,
    "impossible-limits": _limits,
    "other-terms": _terms,
    "other-features": _feature_names,
    "equal-names": _equal_names,
    "other-own-labels": _own_labels,
    "wide": _wide,
}  # fmt: skip


def _mass(name, *choices):
    def of(fields, rng):
        fields["mass"][name] = rng.choice(choices)
        return fields

    return of


def _rows_taken_away(fields, rng):
    """The mass of rows is after the pulls."""
    sent = values_of(fields["mass"]["sent"])
    sent[values_of(fields["iterate"]).size or rng.randrange(sent.size)] = -rng.choice([1e-9, 1.0, 1e5])
    fields["mass"]["sent"] = array(sent)
    return fields


def _true(fields, rng):
    fields["mass"]["sent"] = array(np.ones(fields["mass"]["sent"][1]), "|b1")
    return fields


def _too_much(fields, rng):
    factor = rng.choice([1e12, 1e100, 1e200])
    if rng.random() < 0.5:
        fields["mass"]["sent"] = array(values_of(fields["mass"]["sent"]) * factor + factor)
    else:
        fields["iterate"] = array(values_of(fields["iterate"]) * factor + factor)
    return fields


EXCHANGE = {
    "huge-knows": _mass("knows", 2**64 - 1, 2**63, 2**32 + 1),
    "huge-life": _mass("life", 2**64 - 1, 2**63, 2**32 + 1),
    "huge-sequence": _mass("sequence", 2**64 - 1, 2**63, 2**53 + 1),
    "lost-memory": _mass("knows", 2**32, 2**31, 100),
    "truths": _true,
    "rows-taken-away": _rows_taken_away,
    "too-much": _too_much,
    "flat-iterate": lambda fields, rng: {**fields, "iterate": array(values_of(fields["iterate"]).ravel())},
    "number-iterate": lambda fields, rng: {**fields, "iterate": array(1.0)},
}


def _raw(data):
    packer = zlib.compressobj(9, wbits=-15)
    return packer.compress(data) + packer.flush()


def _difference(name, *choices):
    """A field of a difference: base, tops, levels or check of the vector."""
    at = ("base", "tops", "levels", "check").index(name)

    def of(fields, rng):
        fields["c"][at] = rng.choice(choices)
        return fields

    return of


DIFFERENCE = {
    "huge-life": lambda fields, rng: fields | {rng.choice("lk"): rng.choice([2**64 - 1, 2**63, 2**32 + 1])},
    "huge-number": lambda fields, rng: fields | {rng.choice("qht"): rng.choice([2**64 - 1, 2**63, 2**53 + 1])},
    "no-number-of-rows": lambda fields, rng: fields | {"r": rng.choice([*NUMBERS, -1.0])},
    "huge-base": _difference("base", 2**64 - 1, 2**53 + 1, -1),
    "unknown-base": _difference("base", 2**53, 10**6, 0),
    "few-tops": _difference("tops", [], [0], [0] * 63, [0] * 65, [0] * 10**5),
    "huge-tops": _difference("tops", [10**6] * 8, [2**63] * 8, [-(10**5)] * 8, [math.nan] * 8, [989] * 8),
    "noisy-levels": lambda fields, rng: _difference("levels", rng.randbytes(rng.randrange(99)))(fields, rng),
    "few-levels": _difference("levels", b"", _raw(b""), _raw(b"\0"), _raw(bytes(5000))),
    "bomb-of-levels": _difference("levels", _raw(bytes(10**7))),
    "cut-levels": lambda fields, rng: _difference("levels", fields["c"][2][: rng.randrange(4)])(fields, rng),
    "other-check": _difference("check", 0, -1, 2**31, 2**63),
    "other-difference": lambda fields, rng: fields | {"c": rng.choice([[], None, [1], [1, [], b""], {}, 7, b"x"])},
}


def _points(fields):
    return len(fields["sites"])


def _column(name, dtype, *choices):
    def of(fields, rng):
        fields[name] = array(np.full(_points(fields), rng.choice(choices)), dtype)
        return fields

    return of


def _point_values(fields, rng):
    fields["X"] = spoilt(fields["X"], rng.choice([*NUMBERS, 1e160, 1e12, 1e140]), rng)
    return fields


def _wrapped(fields, rng):
    """Row pointers whose differences are positive only for an overflow."""
    k = _points(fields)
    fields["indices"] = fields.get("indices") or array(np.zeros(3), "<i8")
    wrapped = [0, 2**62, -(2**63), -(2**62), 0, 2][: k + 1]
    fields["indptr"] = array(wrapped + [2] * (k + 1 - len(wrapped)), "<i8")
    return fields


def _far_features(fields, rng):
    n = values_of(fields["X"]).size
    far = rng.choice([2**62, 2**63 - 1, 2**53, 2**31, 10**6, -1])
    fields["X"], fields["indices"] = array(np.ones(n)), array(np.full(n, far), "<i8")
    fields["indptr"] = fields.get("indptr") or array(np.arange(_points(fields) + 1), "<i8")
    return fields


def _strange_sites(fields, rng):
    """Rows of others that they never had."""
    fields["sites"] = [rng.choice(["north", "south"])] * max(1, _points(fields))
    return fields


def _named_twice(fields, rng):
    fields["sites"] = [fields["sites"][0]] * _points(fields) if fields["sites"] else ["eve", "eve"]
    fields["rows"] = array(np.zeros(_points(fields)), "<i8")
    return fields


CANDIDATES = {
    "far-points": _point_values,
    "tiny-masses": _column("masses", "<f8", 1e-320, 0.0, -1.0, 1e-200, 1e200, 2.0, math.nan),
    "far-rows": _column("rows", "<i8", 2**62, 2**63 - 1, -1, -(2**63), 2**53 + 1),
    "strange-labels": _column("labels", "<f8", math.nan, 0.5, 99.0, -1e300),
    "far-features": _far_features,
    "wrapped-pointers": _wrapped,
    "strange-sites": _strange_sites,
    "named-twice": _named_twice,
    "wrong-digest": lambda fields, rng: {**fields, "digest": rng.choice(["", "0" * 16, "x" * 65, "\x00"])},
    "wrong-value": lambda fields, rng: {**fields, "value": rng.choice([*NUMBERS, -1.0])},
    "wrong-quiet": lambda fields, rng: {**fields, "quiet": rng.choice([-1, -(2**63), 2**64 - 1, 2**53 + 1])},
    "wrong-output": lambda fields, rng: {**fields, "output": rng.choice([-1, 3, 1023, 1024, 2**62])},
}


def _rows_of_another(fields, rng):
    """Rows within all bounds under the name of a site that never had them."""
    if not fields["sites"]:
        return without_field(fields, rng)
    fields["sites"] = [rng.choice(["north", "south"])] * _points(fields)
    fields["rows"] = array(rng.sample(range(20), _points(fields)) if _points(fields) <= 20 else fields["rows"], "<i8")
    fields["X"] = array(values_of(fields["X"]) * rng.uniform(0.5, 1.0))
    return with_digest(fields)


def with_digest(fields):
    """The message with the digest of its points."""
    values = {name: values_of(field) if is_array(field) else field for name, field in fields.items()}
    return {**fields, "digest": points_of(values, 10**4).digest}


def _signatures(change):
    def of(fields, rng):
        if not fields["sites"]:
            return without_field(fields, rng)
        return change(fields, rng)

    return of


def _other_certificates(fields, rng):
    pem = fields["certificates"][0]
    other = [
        b"",
        pem[:-60],
        pem[:99] + b"A" + pem[100:],
        pem[60:],
        b"-----BEGIN CERTIFICATE-----\n" * 100,
        bytes(40_000),
    ]
    return {**fields, "certificates": [rng.choice(other)] * len(fields["certificates"])}


SIGNED = {
    "rows-of-another": _rows_of_another,
    "other-signatures": _signatures(
        lambda fields, rng: {**fields, "signatures": [rng.randbytes(rng.choice([0, 64, 2000]))] * _points(fields)}
    ),
    "few-signatures": _signatures(lambda fields, rng: {**fields, "signatures": fields["signatures"][1:]}),
    "no-signatures": _signatures(lambda fields, rng: {**fields, "signers": None}),
    "far-signers": _signatures(_column("signers", "<i8", 1, 2**40, -1, 2**63 - 1)),
    "other-certificates": _signatures(_other_certificates),
    "no-certificates": _signatures(lambda fields, rng: {**fields, "certificates": []}),
}  # of core-sets whose rows are signed
KINDS = {
    "card": {**ANY, **CARD}, "exchange": {**ANY, **EXCHANGE}, "candidates": {**ANY, **CANDIDATES},
    "difference": {**{name: ANY[name] for name in FLAT}, **DIFFERENCE},
}  # fmt: skip


def hostile(data, rng, kind=None):
    """A hostile message made of a genuine one, of some kind or any."""
    fields = plain(data)
    flat = {name: ANY[name] for name in FLAT}
    kinds = ANY if arrays_of(fields) else flat
    if "turn" not in fields:  # Messages of rounds have kinds of their own by these names.
        kinds = KINDS.get(fields["kind"], kinds) | (SIGNED if fields.get("signers") is not None else {})
    said = kinds[kind or rng.choice(list(kinds))](fields, rng)
    return said if isinstance(said, bytes) else packed(said)
