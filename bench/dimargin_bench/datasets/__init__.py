"""Data sets of the papers by name: found in the folder DIMARGIN_DATA or in a cache, or fetched from their homes."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin_bench.datasets.access import DataRows as DataRows
    from dimargin_bench.datasets.access import available as available
    from dimargin_bench.datasets.access import load as load
    from dimargin_bench.datasets.access import path as path
    from dimargin_bench.datasets.fetching import fetch as fetch
    from dimargin_bench.datasets.places import Paths as Paths
    from dimargin_bench.datasets.records import ChangedFileError as ChangedFileError
    from dimargin_bench.datasets.transfer import FetchError as FetchError
else:
    __all__, __getattr__, __dir__ = lazily(__name__, ("catalogue",))
