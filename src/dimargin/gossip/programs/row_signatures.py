"""Signatures of rows that sites pass on: who hears a row from another site than its own knows whose it is.

Without them a member could tell rows under another's name, and honest sites that pass them on would refuse one another:
the site whose rows they are said to be knows better, and two that were told different rows of one name contradict each
other. A site therefore signs every row that leaves it, with the key of its certificate, and sends the certificate
along; a row without a signature of its own site is nobody's. A site can still sign two rows of one number. They have
different names, since the name of a signed row has a digest of its content, and count as two rows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from dimargin.gossip.identity import Identity
from dimargin.gossip.messages import pack
from dimargin.gossip.programs.candidates import Candidates, Name, Named

_PURPOSE = "dimargin: row of a core-set"  # so that no signature for anything else is one of a row


class _Signed(NamedTuple):
    signature: bytes
    chain: bytes  # of certificates, as in `Identity`


class RowSignatures:
    """Signatures of the rows in the core-sets of a site, which its machines share.

    They hold under one schema only, since rows are scaled by it.
    """

    def __init__(self, identity: Identity, schema: str) -> None:
        self._identity, self._schema = identity, schema
        self._of: dict[Name, _Signed] = {}

    def fields(self, points: Named) -> dict[str, Any]:
        """Return the signatures as fields of a message or a checkpoint; own points are signed when they first leave."""
        signed = [self._of.get(name) or self._sign(name) for name in points.names]
        chains = list(dict.fromkeys(one.chain for one in signed))
        indices = np.array([chains.index(one.chain) for one in signed], dtype=np.int64)
        return {"signatures": [one.signature for one in signed], "certificates": chains, "signers": indices}

    def check(self, points: Named, message: Candidates) -> str | None:
        """Return why points are not all of the sites that they are said to be of; None if they are."""
        if message.signers is None:
            return f"its rows are not signed, that of site {points.names[0].site!r} for one" if points.names else None
        for name, signature, k in zip(points.names, message.signatures, message.signers.tolist(), strict=True):
            if name in self._of:
                continue
            try:
                needed = self._identity.checked(name.site, message.certificates[k], signature, self._text(name))
            except ValueError as error:
                return f"row {name.row} of site {name.site!r} has {error}"
            self._of[name] = _Signed(signature, needed)
        return None

    def keep(self, names: Collection[Name]) -> None:
        """Forget the signatures of all other rows."""
        self._of = {name: self._of[name] for name in names if name in self._of}

    def _sign(self, name: Name) -> _Signed:
        self._of[name] = _Signed(self._identity.sign(self._text(name)), self._identity.chain)
        return self._of[name]

    def _text(self, name: Name) -> bytes:
        return pack({"purpose": _PURPOSE, "schema": self._schema, **name._asdict()})
