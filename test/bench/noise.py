# SPDX-License-Identifier: Apache-2.0
"""Do two sets of runs differ beyond noise?

One run tells nothing of this: its samples follow each other within a second, on the same pages and
cores, and lie closer together than those of another run. So a row has one value of each run, its
median, and the spread of these is the noise. It is compared by Student's test of the logarithms,
with two corrections. A few runs may lie together by chance, so the variance of a row is not below
the mean of its own and that of the middle row. And among many rows some differ by chance, so the
levels are those of Benjamini and Hochberg: of 20 comparisons of equal programs, one finds anything.
"""

import functools
import math
import statistics

MIN_RUNS = 3  # of each side, for a verdict
FALSE_SHARE = 0.05
LEAST_NOISE = 0.001  # of a run: clocks count in steps
HALF_INTERVAL = 1.96  # of 95 %, in standard deviations


def area(begin, df):
    """Of the density of Student's t, from tan(begin) times sqrt(df) on; Simpson's rule."""
    n_steps = 400
    step = (math.pi / 2 - begin) / n_steps
    heights = [math.cos(begin + i * step) ** (df - 1) for i in range(n_steps)] + [0.0]
    return step / 3 * (heights[0] + 4 * sum(heights[1::2]) + 2 * sum(heights[2:-1:2]) + heights[-1])


def chance_of(t, df):
    """That equal programs differ by so much or more, in either direction."""
    return area(math.atan(abs(t) / math.sqrt(df)), df) / area(0.0, df)


@functools.lru_cache
def least_t(chance, df):
    """The difference of that chance."""
    low, high = 0.0, 1e6
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if chance_of(middle, df) > chance else (low, middle)
    return high


class Difference:
    """Between two lists of values above 0, each of MIN_RUNS or more; errors: of single values."""

    def __init__(self, old, new, errors):
        logs = [[math.log(value) for value in values] for values in (old, new)]
        means = [statistics.fmean(values) for values in logs]
        squares = sum((value - mean) ** 2 for some, mean in zip(logs, means) for value in some)
        within = statistics.fmean([error * error for error in errors] or [0.0])
        self.df = len(old) + len(new) - 2
        self.variance = max(squares / self.df, within, LEAST_NOISE**2)
        self.shorter = 1 / len(old) + 1 / len(new)
        self.change = means[1] - means[0]  # a logarithm

    def error(self):
        return math.sqrt(self.variance * self.shorter)

    def chance(self):
        return chance_of(self.change / self.error(), self.df)

    def half_interval(self):
        return least_t(FALSE_SHARE, self.df) * self.error()


def raise_variances(differences):
    """Of rows that were measured together."""
    middle = statistics.median([one.variance for one in differences] or [0.0])
    for one in differences:
        one.variance = max(one.variance, (one.variance + middle) / 2)


def error_of(low, high):
    """Of a median that lies between these in 19 of 20 cases."""
    return math.log(high / low) / (2 * HALF_INTERVAL) if low and high and low > 0 else 0.0


def highest_chance(differences):
    """Up to which a difference is none by chance, among all of these; -1: all are."""
    in_order = sorted(one.chance() for one in differences)
    passed = [
        chance
        for number, chance in enumerate(in_order, 1)
        if chance <= FALSE_SHARE * number / len(in_order)
    ]
    return passed[-1] if passed else -1


def least_change(differences):
    """What half of the rows would have shown if it had been theirs alone; as a ratio above 1."""
    chance = FALSE_SHARE / len(differences)
    return math.exp(statistics.median(least_t(chance, one.df) * one.error() for one in differences))
