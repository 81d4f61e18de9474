"""Folders that a Spark session reads and writes by data frames, on any file system; they may hold rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from dimargin.spark.engine import frames
from dimargin.spark.engine.jobs import Jobs
from dimargin.spark.engine.stored import PRIVATE, SCHEMA


@dataclass(frozen=True)
class Folder:
    """Folder of one data set, on any file system that Spark supports."""

    jobs: Jobs
    path: str
    # A manifest has a few hundred bytes per job since the previous one.
    max_bytes_of_line: ClassVar[int] = 64 * 2**20

    def __truediv__(self, name: str) -> Folder:
        return Folder(self.jobs, f"{self.path.rstrip('/')}/{name}")

    def write_line(self, text: str) -> None:
        """Write a line of text to the folder, replacing its content."""
        line = self.jobs.spark.range(0, 1, 1, 1).select(F.lit(text).alias("value"))
        writer = line.write.options(**PRIVATE).mode("overwrite")
        self.jobs.act(lambda: writer.text(self.path), f"write {self.path}")

    def lines(self, name: str) -> dict[str, bytes | None]:
        """Return the lines that `write_line` wrote to the folders ``*/name`` in this one, by the name at ``*``.

        A damaged file may have any bytes. Its entry is None if it is empty or larger than
        `max_bytes_of_line`.
        """

        def read() -> tuple[list[str], pa.Table]:
            pattern = f"{self.path.rstrip('/')}/*/{name}"
            # The pattern is given twice, because Spark warns if a single one matches no file.
            found = self.jobs.spark.read.format("binaryFile").load([pattern, pattern])
            short = found.where(f"length <= {self.max_bytes_of_line}")
            return found.inputFiles(), short.select("path", "content").toArrow()

        try:
            files, table = self.jobs.act(read, f"read {self.path}")
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return {}
        contents = {row["path"].split("/")[-3]: row["content"] for row in table.to_pylist()}
        return dict.fromkeys(file.split("/")[-3] for file in files) | contents

    def write(self, items: Sequence[bytes]) -> None:
        """Write items of the driver to the folder, replacing its content."""
        records = ((index, 0, data) for index, data in enumerate(items))
        table = pa.Table.from_batches(frames.frames(records), frames.COLUMNS)
        frame = self.jobs.spark.createDataFrame(table, SCHEMA).coalesce(1)
        writer = frame.write.options(**PRIVATE).mode("overwrite")
        self.jobs.act(lambda: writer.parquet(self.path), f"write {self.path}")

    def read(self) -> list[bytes]:
        """Return the items that `write` wrote."""
        read = self.jobs.spark.read.schema(SCHEMA).parquet(self.path)
        return [data for _, data in frames.records_of(self.jobs.run(read, f"read {self.path}"))]
