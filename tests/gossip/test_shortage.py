"""When a site whose descriptors are all taken opens its link again: told by a clock that is counted."""

import pytest

from dimargin.gossip.shortage import Shortage


class Watched:
    """A site that is looked at every half second."""

    def __init__(self, *neighbours):
        self.shortage, self.now, self.hung_up = Shortage(lease=2.0), 0.0, 0.0
        self.go_on(20.0, neighbours, is_free=True)

    def go_on(self, seconds, neighbours, is_free=False):
        """Return after how many seconds the link is opened again, each time."""
        found, began = [], self.now
        while self.now < began + seconds:
            self.now += 0.5
            if self.shortage.is_due(self.now, is_free, neighbours, lambda: self.hung_up):
                found.append(self.now - began)
        return found


def test_the_link_stays_open_while_all_neighbours_are_there():
    watched = Watched("a", "b")
    assert watched.go_on(3600.0, ["a", "b"]) == [] and watched.shortage.is_there
    assert watched.go_on(3500.0, ["a", "b"]) == [1.0]  # but for an hour at most
    watched.go_on(0.5, ["a", "b"], is_free=True)
    assert not watched.shortage.is_there


def test_a_site_that_is_alone_has_nothing_to_lose():
    assert Watched("a").go_on(35.0, []) == [11.0, 22.0, 33.0]


def test_once_strangers_have_hung_up_it_is_opened_at_once():
    watched = Watched("a", "b")
    watched.hung_up = 0.3
    assert watched.go_on(5.0, ["a", "b"]) == [3.0]
    watched.hung_up = 0.2
    assert watched.go_on(600.0, ["a", "b"]) == []


def test_missing_neighbours_get_chances_at_ever_longer_intervals():
    watched = Watched("a", "b")
    assert watched.go_on(200.0, ["a"]) == pytest.approx([10, 20 + 10, 40 + 30, 80 + 70], abs=4)
    assert watched.go_on(3000.0, ["a", "b"]) == []  # all are there


def test_a_moment_with_free_descriptors_ends_no_shortage():
    """Nor does it make who was there unknown: there is one whenever the link has been opened."""
    watched = Watched("a", "b")
    assert len(watched.go_on(200.0, ["a"])) == 4
    watched.go_on(5.0, [], is_free=True)
    assert len(watched.go_on(200.0, ["a"])) == 1
    watched.go_on(11.0, ["a"], is_free=True)
    assert watched.go_on(1000.0, ["a"]) == []  # "b" is not expected any more
    assert watched.go_on(15.0, []) == [0.5, 11.5]
