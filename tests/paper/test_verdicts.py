"""What checks are given to tell how far they are."""

from cpsrl.paper.verdicts import Effort


def test_effort_tells_how_far_it_is():
    told = []
    effort = Effort(quick=True, progress=told.append)
    assert effort.choose(1, 2) == 1
    count = effort.counter(4)
    count(1)
    count(2)
    count(9)
    assert told == [0.25, 0.75, 1.0]
