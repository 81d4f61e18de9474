"""HTML reports about models and their predictions, which import jinja2 and matplotlib on use."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.display.report.page import Source as Source
    from dimargin.display.report.page import write_report as write_report
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
