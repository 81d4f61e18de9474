"""Messages of sites that learn by GADGET, and the check whether a correct site can have sent one."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from dimargin.network.messages import Array, Count, Digest, Message, Numbers
from dimargin.network.programs.sums import Sums
from dimargin.network.push_sum import Mass, PushSum


class Exchange(Message, frozen=True, tag="exchange"):
    """Message that a site sends a neighbour in a round.

    Attributes
    ----------
    mass : Mass
    steps : int
        Number of steps that the sender has taken.
    iterate : ndarray of shape (n_outputs, n_features)
        Weights of the sender; of no rows while it has none worth sending, or with local gradients, whose mass has them.
    schema : str
        Digest of the sender's schema; messages about other schemas are ignored.
    """

    mass: Mass
    steps: Count
    iterate: Annotated[Array, Numbers((2,))]
    schema: Digest = ""

    def fault(
        self, sender: str, push_sum: PushSum, shape: tuple[int, int], norm_bound: float, mass_bound: float
    ) -> str | None:
        """Return why this cannot come from a correct site that learns what the receiver does; None if it can.

        Parameters
        ----------
        sender : str
        push_sum : PushSum
            Push-Sum of the receiver.
        shape : (n_outputs, n_features)
        norm_bound, mass_bound : float
            Bounds of the norm of the weights, and of what one message may add to any sum.
        """
        sent, iterate = self.mass.sent, self.iterate
        if sent.shape != push_sum.mass.shape or (len(iterate) and iterate.shape != shape):
            wrong = iterate.shape if len(iterate) else sent.shape
            return f"its message has shape {wrong}, expected {shape} for {shape[1]} features"
        if norm_bound < np.inf and np.linalg.norm(iterate) > norm_bound:
            return f"its weights have a norm of {np.linalg.norm(iterate):.3g}, expected at most {norm_bound:.3g}"
        news = push_sum.news(sender, self.mass)
        if news is None:
            return None
        if (added := np.abs(news).max()) > mass_bound:
            return f"its message adds {added:.3g} to a sum, expected at most {mass_bound:.3g}"
        if (rows := Sums.of(news, shape).rows) < 0:
            return f"its message takes {-rows:.3g} rows away, which no site does"
        return None
