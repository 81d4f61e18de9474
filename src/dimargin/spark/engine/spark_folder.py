"""Folders that a Spark session reads and writes by data frames alone, wherever they are; they may hold rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from dimargin.spark.engine import frames
from dimargin.spark.engine.jobs import Jobs
from dimargin.spark.engine.stored import PRIVATE, SCHEMA

_MAX_BYTES_OF_LINE = 64 * 2**20  # a manifest has some hundred bytes for each job since the one before


@dataclass(frozen=True)
class Folder:
    """Folder of one data set, on any file system that Spark knows."""

    jobs: Jobs
    path: str

    def __truediv__(self, name: str) -> Folder:
        return Folder(self.jobs, f"{self.path.rstrip('/')}/{name}")

    def write_line(self, text: str) -> None:
        """Write a line of text to the folder, in place of what was there."""
        line = self.jobs.spark.range(0, 1, 1, 1).select(F.lit(text).alias("value"))
        writer = line.write.options(**PRIVATE).mode("overwrite")
        self.jobs.act(lambda: writer.text(self.path), f"write {self.path}")

    def lines(self, name: str) -> dict[str, bytes | None]:
        """Return what `write_line` has written to folders ``*/name`` in this one, by the name at ``*``.

        It need not be text any more, and is None where a file is empty, or too large to be a line of ours.
        """

        def read() -> tuple[list[str], pa.Table]:
            pattern = f"{self.path.rstrip('/')}/*/{name}"
            # of one pattern alone Spark warns if nothing is there
            found = self.jobs.spark.read.format("binaryFile").load([pattern, pattern])
            return found.inputFiles(), found.where(f"length <= {_MAX_BYTES_OF_LINE}").select(
                "path", "content"
            ).toArrow()

        try:
            files, table = self.jobs.act(read, f"read {self.path}")
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return {}
        contents = {row["path"].split("/")[-3]: row["content"] for row in table.to_pylist()}
        return dict.fromkeys(file.split("/")[-3] for file in files) | contents

    def write(self, items: Sequence[bytes]) -> None:
        """Write the driver's own bytes to the folder, in place of what was there."""
        records = ((index, 0, data) for index, data in enumerate(items))
        table = pa.Table.from_batches(frames.frames(records), frames.COLUMNS)
        frame = self.jobs.spark.createDataFrame(table, SCHEMA).coalesce(1)
        writer = frame.write.options(**PRIVATE).mode("overwrite")
        self.jobs.act(lambda: writer.parquet(self.path), f"write {self.path}")

    def read(self) -> list[bytes]:
        """Return the bytes that `write` has written."""
        read = self.jobs.spark.read.schema(SCHEMA).parquet(self.path)
        return [data for _, data in frames.records_of(self.jobs.run(read, f"read {self.path}"))]
