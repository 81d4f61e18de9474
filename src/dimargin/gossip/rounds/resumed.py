"""Rounds of a site whose program lives only as long as a round, for frameworks whose clients keep no memory.

The program is restored from the checkpoint of the last round, takes the messages that its
neighbours sent in that round, and is stored again with the messages that it sends. If no message is
lost, its numbers are those of a simulation, bit for bit. Certificates take several rounds, and a
checkpoint gives up one that is not complete: `Problem.tol` must be zero, as it is by default.
"""

from __future__ import annotations

from collections.abc import Iterable

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import MessageError, UnsoundError, decoder, encode, pack, unpack
from dimargin.gossip.program import Action, Send
from dimargin.gossip.rounds.synchronous import Synchronous


def resume_round(
    program: Synchronous, state: bytes, now: float, neighbours: Iterable[str], inbox: Iterable[tuple[str, bytes]]
) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Run one round of a program, and return its new state and the messages that it sends, with their receivers.

    Parameters
    ----------
    program : Synchronous
        A new program of the site, always with the same parameters.
    state : bytes
        State that the last call returned; empty for the first round.
    now : float
        Seconds, which must grow from round to round; zero in the first round of the network.
    neighbours : iterable of str
        Names of the neighbours that take part. The site continues without any others.
    inbox : iterable of (str, bytes)
        Senders and messages of the last round.

    Raises
    ------
    MessageError, ValueError
        If `state` is not one of such a program.
    """
    actions: list[Action] = []
    saved = unpack(state) if state else {}
    if state:
        program.restore(saved["program"])
        program.neighbourhood.refused.update(saved["refused"])
    actions += program.start(now, sorted(neighbours))
    before, read = program.rounds, decoder(program.messages, LIMITS.message)
    for name in sorted(set(program.members) - set(program.neighbourhood.names)):
        program.leave(name)
    for sender, data in inbox:
        if not program.hears(sender):
            continue
        try:
            message = read(data)
        except MessageError as error:
            if isinstance(error, UnsoundError):
                actions += program.refuse(now, sender, str(error))
            continue
        actions += program.receive(now, sender, message)
    if state and program.rounds == before:  # A message is missing, or a neighbour has left.
        actions += program.wake(now, "round")
    own = {"program": program.checkpoint(), "refused": program.neighbourhood.refused}
    return pack(own), [(action.to, encode(action.message)) for action in actions if isinstance(action, Send)]
