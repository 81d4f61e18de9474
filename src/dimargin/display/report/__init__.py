"""HTML reports about models and their predictions, which import jinja2 and matplotlib on use."""

from dimargin.display.report.page import Source, write_report

__all__ = ["Source", "write_report"]
