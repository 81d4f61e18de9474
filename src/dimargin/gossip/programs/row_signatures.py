"""Signatures of rows that sites pass on, which prove the site that each row belongs to.

Without them a member could send false rows in another site's name, and honest sites that pass them
on would refuse each other: the named site would find rows that it does not have, and two sites that
received different rows of one name would contradict each other. So a site signs every row that
leaves it, with the key of its certificate, and sends the certificate along; a row without a
signature of its own site is invalid. A site can still sign two rows with one number. They count as
two rows, since the name of a signed row contains a digest of its content.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from dimargin.gossip.identity import Identity
from dimargin.gossip.messages import pack
from dimargin.gossip.programs.candidates import Candidates, Name, Named


class _Signed(NamedTuple):
    signature: bytes
    chain: bytes  # Chain of certificates, as in `Identity`.


class RowSignatures:
    """Signatures of the rows in the core-sets of a site, which its machines share.

    They are valid under one schema only, since rows are scaled by it.
    """

    def __init__(self, identity: Identity, schema: str) -> None:
        self._identity, self._schema = identity, schema
        self._signed: dict[Name, _Signed] = {}

    def fields(self, points: Named) -> dict[str, Any]:
        """Return the signatures as fields of a message or a checkpoint; own points are signed when they first leave."""
        signed = [self._signed.get(name) or self._sign(name) for name in points.names]
        chains = list(dict.fromkeys(one.chain for one in signed))
        indices = np.array([chains.index(one.chain) for one in signed], dtype=np.int64)
        return {"signatures": [one.signature for one in signed], "certificates": chains, "signers": indices}

    def check(self, points: Named, message: Candidates) -> str | None:
        """Return why not all points are signed by the sites that they name, or None."""
        if message.signers is None:
            return f"its rows are not signed, such as that of site {points.names[0].site!r}" if points.names else None
        for name, signature, k in zip(points.names, message.signatures, message.signers.tolist(), strict=True):
            if name in self._signed:
                continue
            try:
                needed = self._identity.checked(name.site, message.certificates[k], signature, self._content(name))
            except ValueError as error:
                return f"row {name.row} of site {name.site!r} has {error}"
            self._signed[name] = _Signed(signature, needed)
        return None

    def keep(self, names: Collection[Name]) -> None:
        """Forget the signatures of all other rows."""
        self._signed = {name: self._signed[name] for name in names if name in self._signed}

    def _sign(self, name: Name) -> _Signed:
        self._signed[name] = _Signed(self._identity.sign(self._content(name)), self._identity.chain)
        return self._signed[name]

    def _content(self, name: Name) -> bytes:
        # The purpose keeps signatures of anything else from being valid for rows.
        purpose = "dimargin: row of a core-set"
        return pack({"purpose": purpose, "schema": self._schema, **name._asdict()})
