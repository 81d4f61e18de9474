"""HTML page of a network of sites, which imports jinja2 on use."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.display.network_page.page import write_network_page as write_network_page
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
