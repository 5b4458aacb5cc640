# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Two ways of doing the same, so alike that the noise of one run is larger than what they differ by:
many short runs, alternately, and what the pairs say together.

The two runs of a pair follow each other, in turns the one or the other first, so that what drifts and
what a first run leaves behind is on both sides. Every pair counts. What is estimated is the median of
the ratios; its confidence interval is that of the sign test (the ratios' order statistics), which
supposes nothing of their distribution but that the pairs are independent.
"""

import math
import statistics
import time

from . import quiet

CONFIDENCE = 0.95


def interval(values):
    """(low, high) of the median, with at least CONFIDENCE; None where there are too few values."""
    ordered, n = sorted(values), len(values)
    below = 2 ** -n # binomial: that no more than `rank` of n are below the median
    if 2 * below > 1 - CONFIDENCE:
        return None
    rank = 0
    while True:
        more = below + math.comb(n, rank + 1) * 2 ** -n
        if 2 * more > 1 - CONFIDENCE:
            return ordered[rank], ordered[n - 1 - rank]
        below, rank = more, rank + 1


def measure(one, other, seconds, width):
    """Calls one() and other(), which return figures, in pairs until the interval of the first one's
    ratio is no wider than `width` of it, or `seconds` have passed. ([one], [other], pairs that began
    beside other programs)"""
    a, b, noisy = [], [], 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        noisy += not quiet.wait(0.1)
        if len(a) % 2:
            y = other()
            x = one()
        else:
            x = one()
            y = other()
        a.append(x)
        b.append(y)
        ratios = [p[0] / q[0] for p, q in zip(a, b)]
        at = interval(ratios)
        if at and at[1] - at[0] <= width * statistics.median(ratios):
            break
    return a, b, noisy
