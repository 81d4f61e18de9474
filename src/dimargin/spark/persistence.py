"""Saving and loading in pyspark.ml's layout, on any file system that the session can write to.

``metadata`` holds the Params, as for every stage; ``data`` the bytes of the model file
(`dimargin.save`) in chunks, with their indices. The executors write and read a few chunks at a
time, so that no JVM holds a whole model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader
from pyspark.sql import SparkSession, is_remote
from pyspark.sql import functions as F

from dimargin.io.models import ModelFileError
from dimargin.spark.engine.stored import PRIVATE
from dimargin.spark.shipping import ship, unpacked

_CHUNK_BYTES = 2**18  # Every row of ``data`` holds this many bytes.


class ParamsWriter(DefaultParamsWriter):
    """Writer of a stage's Params, which can also overwrite over Spark Connect."""

    def _handleOverwrite(self, path: str) -> None:
        if is_remote():
            from pyspark.ml.connect.readwrite import RemoteMLWriter

            RemoteMLWriter.handleOverwrite(path, True)
        else:
            super()._handleOverwrite(path)


class ModelWriter(ParamsWriter):
    """Writer of a model: its chunks, then its Params with the size and the checksum of the chunks."""

    def saveImpl(self, path: str) -> None:
        """Write the model to a new folder."""
        model, session = self.instance, self.sparkSession
        parcel = model._parcel = ship(model._fitted, session, model._parcel)
        n_chunks = -(-parcel.size // _CHUNK_BYTES)

        def chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with parcel.file() as file, open(file, "rb") as content:
                for batch in batches:
                    for index in batch.column(0).to_pylist():
                        content.seek(index * _CHUNK_BYTES)
                        yield pa.record_batch({"place": [index], "content": [content.read(_CHUNK_BYTES)]})

        frame = session.range(n_chunks, numPartitions=1).mapInArrow(chunks, "place bigint, content binary")
        # Writer and reader hold one row group, of four MiB, in memory.
        frame.write.options(**PRIVATE).option("parquet.block.size", 2**22).parquet(f"{path}/data")
        self.saveMetadata(model, path, session, {"model": {"bytes": parcel.size, "sha256": parcel.checksum}})


class ModelReader(MLReader[Any]):
    """Reader of models of `ModelWriter`, which refuses damaged models and executes none of their content."""

    def __init__(self, cls: type[Any]) -> None:
        super().__init__()
        self.cls = cls

    def load(self, path: str) -> Any:
        """Read a model.

        Raises
        ------
        ModelFileError
            If chunks are missing or damaged, or do not hold a valid model of this class.
        """
        session = self.sparkSession
        metadata = DefaultParamsReader.loadMetadata(path, session, f"{self.cls.__module__}.{self.cls.__name__}")
        expected = metadata["model"]
        content = _content(session, path, int(expected["bytes"]))
        checksum = hashlib.sha256(content).hexdigest()
        if checksum != expected["sha256"]:
            raise ModelFileError(f"{path} is damaged: its checksum is {checksum}, not {expected['sha256']}")
        try:
            model = self.cls(unpacked(content))
        except (ModelFileError, TypeError) as error:
            raise ModelFileError(f"{path} does not hold a valid {self.cls.__name__}: {error}") from error
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model


def _content(session: SparkSession, path: str, size: int) -> bytes:
    frame, content, n_chunks = session.read.parquet(f"{path}/data"), bytearray(), -(-size // _CHUNK_BYTES)
    step = 128  # A job reads this many chunks.
    for first in range(0, n_chunks, step):
        indices = range(first, min(first + step, n_chunks))
        some = frame.where(F.col("place").between(indices[0], indices[-1])).select("place", "content")
        chunks = some.toArrow().sort_by("place")
        found = chunks["place"].to_pylist()
        if found != list(indices):
            raise ModelFileError(
                f"{path} is damaged: chunks {indices[0]} to {indices[-1]} of {n_chunks} must occur once each, "
                f"found {len(found)} ({len(set(found))} different ones)"
            )
        for chunk in chunks["content"]:
            content += chunk.as_buffer()
    return bytes(content)
