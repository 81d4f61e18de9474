"""Arithmetic in twice the widest floating-point precision of the machine, for the judge of certificates.

Numbers are pairs of long doubles: Dekker, Numer. Math. 1971; Knuth, The Art of Computer Programming, volume 2.
"""

import numpy as np

Long = np.longdouble
_BITS = np.finfo(Long).nmant + 1
EPSILON = float(np.finfo(Long).eps)


class Twofold:
    """Arrays of unevaluated sums of two long doubles."""

    __array_priority__ = 1000

    def __init__(self, head, tail=None):
        self.head = np.asarray(head, dtype=Long)
        self.tail = np.zeros_like(self.head) if tail is None else tail

    @staticmethod
    def _of(value):
        return value if isinstance(value, Twofold) else Twofold(value)

    @staticmethod
    def _quick(head, tail):
        total = head + tail
        return Twofold(total, tail - (total - head))

    def __add__(self, other):
        other = self._of(other)
        total = self.head + other.head
        back = total - self.head
        error = (self.head - (total - back)) + (other.head - back)
        return self._quick(total, error + self.tail + other.tail)

    def __neg__(self):
        return Twofold(-self.head, -self.tail)

    def __sub__(self, other):
        return self + -self._of(other)

    def __rsub__(self, other):
        return self._of(other) + -self

    def __mul__(self, other):
        other = self._of(other)
        product = self.head * other.head
        (a, b), (c, d) = self._halves(self.head), self._halves(other.head)
        error = ((a * c - product) + a * d + b * c) + b * d
        return self._quick(product, error + self.head * other.tail + self.tail * other.head)

    __radd__, __rmul__ = __add__, __mul__

    @staticmethod
    def _halves(values):
        scaled = (Long(2) ** (_BITS - _BITS // 2) + 1) * values
        head = scaled - (scaled - values)
        return head, values - head

    def __truediv__(self, other):
        other = self._of(other)
        first = Twofold(self.head / other.head)
        return first + (self - first * other).head / other.head

    def __getitem__(self, index):
        return Twofold(self.head[index], self.tail[index])

    def __abs__(self):
        return self.where(self.head < 0, -self, self)

    @staticmethod
    def where(condition, yes, no):
        """Of two, elementwise."""
        yes, no = Twofold._of(yes), Twofold._of(no)
        return Twofold(np.where(condition, yes.head, no.head), np.where(condition, yes.tail, no.tail))

    def positive_part(self):
        """Zero where negative."""
        return self.where(self.head > 0, self, 0.0)

    def sum(self, axis=-1):
        """By pairs."""
        terms = Twofold(np.moveaxis(self.head, axis, 0), np.moveaxis(self.tail, axis, 0))
        while len(terms.head) > 1:
            half = len(terms.head) // 2
            folded = terms[:half] + terms[half : 2 * half]
            rest = terms[2 * half :]
            terms = Twofold(np.concatenate([folded.head, rest.head]), np.concatenate([folded.tail, rest.tail]))
        return terms[0] if len(terms.head) else Twofold(0.0)

    def __float__(self):
        return float(self.head + self.tail)
