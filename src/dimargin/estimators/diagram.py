"""Captions of our estimators in scikit-learn's diagrams, which notebooks show.

Scikit-learn asks an estimator for its block of the diagram (``_sk_visual_block_``), and for the address of its
documentation (``_doc_link_...``). The caption of a block stands below the name of the class, before anything is
unfolded, also inside of pipelines and searches; scikit-learn escapes it.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, localcontext
from importlib.metadata import metadata
from typing import Any
from urllib.parse import quote

_PAGE = "/api/generated/dimargin.{estimator_name}.html"  # of a class, in the documentation


class CertificateDiagram:
    """Mixin that shows the certificate of a fitted estimator in its diagram."""

    _doc_link_module = "dimargin"

    @property
    def _doc_link_template(self) -> str:
        return documentation_link(tuple(metadata("dimargin").get_all("Project-URL") or ()))

    def _sk_visual_block_(self) -> Any:
        return visual_block("single", self, type(self).__name__, str(self), caption=caption_of(self))


def caption_of(estimator: Any) -> str | None:
    """Return scope, gap, status and number of support vectors in words, or None for what has no certificate (yet)."""
    own = vars(estimator)
    if not {"certificate_", "duality_gap_", "status_"} <= set(own):
        return None
    scope, status = own["certificate_"], own["status_"]
    with localcontext(prec=2, rounding=ROUND_CEILING):  # the number that is shown is a bound, too
        gap = float(+Decimal(float(own["duality_gap_"])))
    parts = [f"certificate: {scope}", f"relative gap: {gap:.1e}", f"status: {status}"]
    if "support_vectors_" in own:
        parts.append(f"support vectors: {own['support_vectors_'].shape[0]:,}")
    return ", ".join(parts)


def visual_block(kind: str, estimators: Any, names: Any, details: Any, caption: str | None = None) -> Any:
    """Return a block of scikit-learn's diagram."""
    try:
        from sklearn.utils._repr_html.estimator import _VisualBlock
    except ModuleNotFoundError:  # scikit-learn 1.6
        from sklearn.utils._estimator_html_repr import _VisualBlock
    return _VisualBlock(kind, estimators, names=names, name_details=details, name_caption=caption)


def documentation_link(project_urls: tuple[str, ...]) -> str:
    """Return the template of a class's address in the documentation; empty, so that there is no link, without one.

    Parameters
    ----------
    project_urls : tuple of str
        As in the metadata of a package: ``"Label, address"``. That of the documentation is the root of its site.
    """
    for entry in project_urls:
        label, _, address = entry.partition(",")
        address = address.strip().rstrip("/")
        if label.strip().lower() == "documentation" and address.startswith(("https://", "http://")):
            return quote(address, safe=":/") + _PAGE
    return ""
