"""Data files to read, written by libraries, and how to read them in small chunks."""

import bz2
import gzip
import io
import lzma

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from dimargin.io.data import DataFileError, GrowingFile, growing_file, libsvm, mixed, read_data, whole_file
from dimargin.io.data import csv_text as csv_reader
from dimargin.io.data import parquet as parquet_reader
from dimargin.io.data.named_columns import WantedColumns
from dimargin.io.data.opening import DataFile, regular

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
DENSE = np.random.default_rng(0).normal(size=(60, 5)).round(3)
LABELS = np.resize([3, 1, 2], 60)

same_file = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


def small_chunks(monkeypatch, size):
    """Chunks of so many bytes for each module that reads by chunks."""
    for module in (libsvm, parquet_reader, csv_reader, growing_file):
        monkeypatch.setattr(module, "CHUNK", size)


def libsvm_text(X, y):
    stream = io.BytesIO()
    dump_svmlight_file(X, y, stream, zero_based=False)
    return stream.getvalue()


def csv_text(X, y, sep=",", header=True):
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame.insert(2, "label", y)
    return frame.to_csv(index=False, sep=sep, header=header)


def parquet(path, columns, **options):
    pq.write_table(pa.table(columns), path, **options)
    return path


def append(path, text):
    """Add text or bytes to the end of a file."""
    with open(path, "ab") as file:
        file.write(text.encode(errors="surrogateescape") if isinstance(text, str) else text)


def as_dense(X):
    return X.toarray() if sp.issparse(X) else X


def assert_same(data, expected):
    """All that the reader of whole files gives, but for zeros that are stored in one chunk and not in another."""
    assert type(data.X) is type(expected.X) and data.X.dtype == expected.X.dtype == np.float64
    if sp.issparse(data.X):
        assert data.X.indices.dtype == data.X.indptr.dtype == np.int32 and data.X.has_canonical_format
    np.testing.assert_array_equal(as_dense(data.X), as_dense(expected.X))
    np.testing.assert_array_equal(data.y, expected.y)
    assert data.y.dtype == expected.y.dtype
    for name in ("feature_names", "label", "zero_based"):
        assert getattr(data, name) == getattr(expected, name)


def fault(path, *args, **kwargs):
    """Message of the error of a file, which names the file."""
    with pytest.raises(DataFileError) as caught:
        read_data(path, *args, **kwargs)
    assert str(path) in str(caught.value)
    return str(caught.value).replace(str(path), "FILE")


def grown(path, *args, **kwargs):
    """Rows of the first read of a file that may grow."""
    return GrowingFile(path, *args, **kwargs).read()


def fault_of_all(path, *args, **kwargs):
    """Message of the error of a file, which a file that may grow has, too, but for what a parser says in brackets."""
    message = fault(path, *args, **kwargs)
    with pytest.raises(DataFileError) as caught:
        grown(path, *args, **kwargs)
    assert str(caught.value).replace(str(path), "FILE").partition(" (")[0] == message.partition(" (")[0]
    return message


def read_file(path, label=None, options=None):
    """Rows with the remarks on them, which `read_data` would warn about."""
    return whole_file.read_file(DataFile(path, options), WantedColumns(label))


def read_mixed(path, label=None, drop=(), options=None, skip_unlabelled=False, **kinds):
    """A table of a file with columns that are not numbers."""
    with regular(path) as path:
        return mixed.read_mixed(
            DataFile(path, options), WantedColumns(label, drop=drop, skip_unlabelled=skip_unlabelled), **kinds
        )
