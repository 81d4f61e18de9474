"""Row transforms in model files, which sites write without scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.io.models.model_format import model_content
from dimargin.kernels.functions import KERNEL_NAMES, Kernel
from dimargin.system.value_tree import Arrays, Step, decode, encode, refuse_kind, refuse_value


def encode_transform(value: Any, where: str, arrays: Arrays) -> Any:
    """Encode a `RowTransform`; this is an `encode_other` of `model_format.write_model`.

    Raises TypeError for any other value.

    Examples
    --------
    >>> from dimargin.kernels.row_transform import RowTransform
    >>> transform = RowTransform.fit(np.eye(2), Kernel("rbf", gamma=0.5))
    >>> encoded = encode_transform(transform, "transform", arrays := {})
    >>> sorted(arrays), decode_transform(encoded, arrays).kernel.gamma
    (['transform.center'], 0.5)
    """
    from dimargin.kernels.row_transform import RowTransform  # Sites with linear machines need no compiled core.

    if isinstance(value, RowTransform) and not value.offset:  # Files do not store offsets: models have intercepts.
        return {
            "row_transform": {
                "kernel": asdict(value.kernel),
                "center": encode(value.center, f"{where}.center", arrays),
                "dtype": np.dtype(value.dtype).name,
                "difference": value.difference,
                "size": value.size,
            }
        }
    return refuse_value(value, where, arrays)


def decode_transform(value: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Decode a value of `encode_transform`; this is a `decode_other` of `value_tree.decode`.

    Raises ValueError, KeyError or TypeError for another kind of value or invalid parts.
    """
    if "row_transform" in value:
        from dimargin.kernels.row_transform import RowTransform

        given = value["row_transform"]
        kernel = Kernel(**given["kernel"])
        if kernel.name not in KERNEL_NAMES:
            raise ValueError(f"unknown kernel {kernel.name!r}")
        precision = {"float32": np.float32, "float64": np.float64}[given["dtype"]]
        center = decode(given["center"], arrays)
        return RowTransform(kernel, center, precision, bool(given["difference"]), float(given["size"]))  # type: ignore[arg-type]
    return refuse_kind(value, arrays)


def content_of_site(steps: Sequence[Step], notes: Mapping[str, Any]) -> bytes:
    """Return the content of a site's model file, which is always a pipeline."""
    return model_content(steps, notes, pipeline=True, encode_other=encode_transform)
