"""Rows and row transforms in model files, which sites write without scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.kernels.functions import KERNEL_NAMES, Kernel
from dimargin.kernels.rows import RowTransform
from dimargin.model_files.model_format import Arrays, decode, encode, encode_parts, refuse_kind, refuse_value


def encode_rows(value: Any, where: str, arrays: Arrays) -> Any:
    """Encode a CSR array or a `RowTransform`, as an `encode_other` of `dimargin.model_files.model_format.write_model`.

    Raises TypeError for any other value.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> arrays = {}
    >>> encoded = encode_rows(sp.csr_array([[0.0, 2.0]]), "vectors", arrays)
    >>> sorted(arrays)
    ['vectors.data', 'vectors.indices', 'vectors.indptr']
    >>> decode_rows(encoded, arrays).toarray()
    array([[0., 2.]])
    """
    if sp.issparse(value) and value.format == "csr":
        parts = {"data": value.data, "indices": value.indices, "indptr": value.indptr}
        return {"csr": encode_parts(parts, where, arrays), "shape": list(value.shape)}
    if isinstance(value, RowTransform) and not value.offset:  # files have no place for one: models have intercepts
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


def decode_rows(value: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Decode what `encode_rows` encoded, as a `decode_other` of `dimargin.model_files.model_format.decode`.

    Raises ValueError, KeyError or TypeError for another kind of value, and for one whose parts do not make it.
    """
    if "csr" in value:
        data, indices, indptr = (decode(value["csr"][key], arrays) for key in ("data", "indices", "indptr"))
        # SciPy does not check these where the last of them is zero, and then writes beyond the ends
        if indptr.dtype.kind != "i" or indptr.ndim != 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
            raise ValueError("the offsets of sparse rows do not rise from zero")
        matrix = sp.csr_array((data, indices, indptr), shape=tuple(value["shape"]))
        matrix.check_format(full_check=True)
        return matrix
    if "row_transform" in value:
        given = value["row_transform"]
        kernel = Kernel(**given["kernel"])
        if kernel.name not in KERNEL_NAMES:
            raise ValueError(f"unknown kernel {kernel.name!r}")
        precision = {"float32": np.float32, "float64": np.float64}[given["dtype"]]
        center = decode(given["center"], arrays)
        return RowTransform(kernel, center, precision, bool(given["difference"]), float(given["size"]))  # type: ignore[arg-type]
    return refuse_kind(value, arrays)
