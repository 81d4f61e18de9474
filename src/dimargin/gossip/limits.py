"""Limits of what messages of other sites may hold and of the tables that they fill, each with its reason.

Sites in normal operation reach none of these. Lengths and ranges are checked when a message is decoded, before anything
is done with it.
"""

from __future__ import annotations

MESSAGE = 64 * 2**20  # bytes of a message: weights of four million features; a link may carry less

# ---- numbers ---------------------------------------------------------------------------------------------------------

COUNT = 2**53  # rows, steps, messages: whole numbers that float64 holds, of which int64 holds sums of a thousand
LIVES = 2**32  # times that an edge begins anew, as a neighbour may say: once a second for 136 years
NUMBER = 1e150  # size of a value or weight: squares, and sums of as many as fit into a message, are finite
SUM = 1e300  # size of a sum of such, or of their squares: two of them can be added
MIN_MASS, MAX_MASS = 1e-100, 1e100  # weights of rows, which are multiplied by C and divided by

# ---- texts, in characters --------------------------------------------------------------------------------------------

NAME = 255  # of a site, as of the folder that has its name
TEXT = 1024  # a label, the name of a feature, a parameter
DIGEST = 64
SIGNATURE = 1024  # bytes: of an RSA key of 8,192 bits
CERTIFICATES = 2**15  # bytes of a site's certificate and of those between it and the authority's: a dozen

# ---- tables ----------------------------------------------------------------------------------------------------------

SITES = 1024  # that one site knows of: it sends the list to its neighbours, and has a thread for each neighbour
LABELS = 1024  # of all sites together: each is a machine with weights of its own
FEATURES = 2**22  # whose limits fit into a message
TERMS = 64  # parameters that all sites must share
POINTS = 2**20  # of a core-set, whose rounds would take hours long before
WIDENINGS = SITES  # times that cards of one neighbour may bring something new: all learners begin anew each time

# ---- the log ---------------------------------------------------------------------------------------------------------

LINES = 200  # of one kind about messages, that a log takes at once
LINES_A_SECOND = 0.1  # and on the average: 8,640 of one kind a day
