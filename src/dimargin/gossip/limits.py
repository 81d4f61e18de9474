"""Limits on the content of other sites' messages and on the tables that they fill, each with its reason.

Sites in normal operation reach none of these limits. Lengths and ranges are checked when a message
is decoded, before it is used.
"""

from __future__ import annotations

MESSAGE = 64 * 2**20  # Bytes of a message: it holds the weights of four million features. A link may carry less.

# ---- numbers ---------------------------------------------------------------------------------------------------------

COUNT = 2**53  # Numbers of rows, steps or messages: float64 is exact up to here, and int64 holds a thousand of them.
LIVES = 2**32  # Restarts of an edge that a neighbour may report: one per second for 136 years.
NUMBER = 1e150  # Size of a value or weight: squares, and sums of as many as fit into a message, are finite.
SUM = 1e300  # Size of a sum of values or of their squares: two such sums can be added.
MIN_MASS, MAX_MASS = 1e-100, 1e100  # Weights of rows: C is multiplied by them, and sums are divided by them.

# ---- texts, in characters --------------------------------------------------------------------------------------------

NAME = 255  # Name of a site, which is also the name of its folder.
TEXT = 1024  # A label, the name of a feature, or a parameter.
DIGEST = 64
SIGNATURE = 1024  # Bytes of a signature by an RSA key of 8,192 bits.
CERTIFICATES = 2**15  # Bytes of a site's certificate and those between it and the authority's: about a dozen.

# ---- tables ----------------------------------------------------------------------------------------------------------

SITES = 1024  # Sites that one site knows: it sends their list to its neighbours, and has one thread per neighbour.
LABELS = 1024  # Labels of all sites together: each is a machine with its own weights.
FEATURES = 2**22  # Features: the limits of as many fit into a message.
TERMS = 64  # Parameters that all sites must share.
POINTS = 2**20  # Points of a core-set: rounds with far fewer already take hours.
WIDENINGS = SITES  # Times that the cards of one neighbour may widen the schema: all learners restart each time.

# ---- the log ---------------------------------------------------------------------------------------------------------

LINES = 200  # Log lines of one kind about messages that may come in a burst.
LINES_A_SECOND = 0.1  # Average rate of log lines of one kind: 8,640 per day.
