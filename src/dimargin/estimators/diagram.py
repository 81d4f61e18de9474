"""Certificates in scikit-learn's HTML diagrams of estimators, which notebooks show.

Scikit-learn calls ``_sk_visual_block_`` for the block of an estimator, and reads ``_doc_link_...``
for its documentation. The caption is visible below the class name without unfolding, also inside
pipelines and searches; scikit-learn escapes it.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, localcontext
from importlib.metadata import metadata
from typing import Any
from urllib.parse import quote


class CertificateDiagram:
    """Mixin that shows the certificate of a fitted estimator in its diagram."""

    _doc_link_module = "dimargin"

    @property
    def _doc_link_template(self) -> str:
        return documentation_link(tuple(metadata("dimargin").get_all("Project-URL") or ()))

    def _sk_visual_block_(self) -> Any:
        return visual_block("single", self, type(self).__name__, str(self), caption=caption_of(self))


def caption_of(estimator: Any) -> str | None:
    """Describe the certificate of an estimator; None without one."""
    own = vars(estimator)
    if not {"certificate_", "duality_gap_", "status_"} <= set(own):
        return None
    scope, status = own["certificate_"], own["status_"]
    with localcontext(prec=2, rounding=ROUND_CEILING):  # The shown number must be a bound.
        gap = float(+Decimal(float(own["duality_gap_"])))
    parts = [f"certificate: {scope}", f"relative gap: {gap:.1e}", f"status: {status}"]
    if "support_vectors_" in own:
        parts.append(f"support vectors: {own['support_vectors_'].shape[0]:,}")
    return ", ".join(parts)


def visual_block(kind: str, estimators: Any, names: Any, details: Any, caption: str | None = None) -> Any:
    """Create a block of scikit-learn's diagram."""
    try:
        from sklearn.utils._repr_html.estimator import _VisualBlock
    except ModuleNotFoundError:  # scikit-learn 1.6
        from sklearn.utils._estimator_html_repr import _VisualBlock
    return _VisualBlock(kind, estimators, names=names, name_details=details, name_caption=caption)


def documentation_link(project_urls: tuple[str, ...]) -> str:
    """Return the template for links to the documentation; an empty string for no links.

    Parameters
    ----------
    project_urls : tuple of str
        Entries ``"Label, address"`` of the package metadata; "Documentation" is the site's root.
    """
    for entry in project_urls:
        label, _, address = entry.partition(",")
        address = address.strip().rstrip("/")
        if label.strip().lower() == "documentation" and address.startswith(("https://", "http://")):
            return quote(address, safe=":/") + "/api/generated/dimargin.{estimator_name}.html"
    return ""
