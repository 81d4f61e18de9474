"""Folders that a Spark session reads and writes by data frames alone, wherever they are; they may hold rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from dimargin.engines import frames
from dimargin.engines.jobs import Jobs
from dimargin.engines.stored import PRIVATE, SCHEMA


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

    def lines(self, name: str) -> dict[str, str]:
        """Return the lines that `write_line` has written to folders ``*/name`` in this one, by the name at ``*``."""

        def read() -> pa.Table:
            pattern = f"{self.path.rstrip('/')}/*/{name}"
            found = self.jobs.spark.read.text([pattern, pattern])  # of one alone Spark warns if it is not there
            return found.select("value", "_metadata.file_path").toArrow()

        try:
            rows = self.jobs.act(read, f"read {self.path}").to_pylist()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return {}
        return {row["file_path"].split("/")[-3]: row["value"] for row in rows}

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
