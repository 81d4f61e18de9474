"""Files: data files, model files, and LIBSVM's formats."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.io.data import DataFileError as DataFileError
    from dimargin.io.data import DataFileWarning as DataFileWarning
    from dimargin.io.data import DataSet as DataSet
    from dimargin.io.data import GrowingFile as GrowingFile
    from dimargin.io.data import read_data as read_data
    from dimargin.io.models import ModelFileError as ModelFileError
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
