"""A page of HTML about a model and how it does on rows; jinja2 and matplotlib are imported when it is written."""

from dimargin.display.report.page import Source, write_report

__all__ = ["Source", "write_report"]
