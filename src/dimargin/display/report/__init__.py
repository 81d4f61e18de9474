"""HTML reports about models and their predictions; jinja2 and matplotlib are imported when needed."""

from dimargin.display.report.page import Source, write_report

__all__ = ["Source", "write_report"]
