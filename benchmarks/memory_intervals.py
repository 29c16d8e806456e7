"""The intervals of the memory planner: factors from published readings, and their coverage when a source is left out.

    python -m benchmarks.memory_intervals ROWS.csv ... [--write]

ROWS.csv as for benchmarks.memory_accuracy; readings of quality A and B count.  The factors of a regime are weighted
quantiles (LOW, HIGH) of reading / prediction, each source predicted without the numbers that were fitted on it
(benchmarks/fitted.py).  A framework with at least 8 readings has factors of its own, from predictions with all numbers:
n/(n + 10) of them and the rest of the regime's, in logarithms.  The n readings of a source weigh n^0.5 together.  "Left
out": factors from all other sources, the source's own fitted numbers put back.  --write updates
launch/catalogue/residuals.toml.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import fitted
from benchmarks.memory_accuracy import predicted
from launch.memory.intervals import FILE, REGIMES
from launch.planner.table_rows import parse_regime

LIMIT = 0.98  # quantile of the upper limit
LOW, HIGH = 0.045, 0.955  # quantiles with which 90 % of the readings of left-out sources are inside
# Least readings of a framework; readings as which the regime counts; power of the number of a source's readings.
LEAST, PULL, WEIGHT = 8, 10, -0.5
SHARED = "generic"  # a name for many frameworks, which have no residuals in common
HEADER = """# Factors between which readings lie, relative to predictions (launch/memory/intervals.py).
# `low`, `high`, `limit`: quantiles {low:.1%}, {high:.1%} and {limit:.1%}; `readings`, `sources`: of quality A and B;
# `inside`, `obeyed`: share of the readings of left-out sources that lie in their interval, and not above their limit.
# Written by python -m benchmarks.memory_intervals.  Left out: {figures}.
"""


@dataclass(frozen=True)
class Reading:
    source: str
    framework: str
    regime: str
    single: bool
    plain: float  # reading / prediction
    left_out: float  # without the numbers fitted on its source

    @property
    def key(self) -> str:
        return f"{self.framework}-{self.regime}"


@dataclass(frozen=True)
class Factors:
    low: float
    high: float
    limit: float
    count: int = 0
    sources: int = 0

    def draw_towards(self, regime: Factors) -> Factors:
        """These factors of few readings, with those of the regime."""
        share = self.count / (self.count + PULL)
        ends = ("low", "high", "limit")
        drawn = {name: share * getattr(self, name) + (1 - share) * getattr(regime, name) for name in ends}
        return replace(self, **drawn)


Finder = Callable[[Reading], Factors]


def collect_readings(table: Sequence[dict[str, str]]) -> list[Reading]:
    found = []
    for row in table:
        if row["kind"] != "measured" or not row["peak_gib"] or row["seq_kind"] == "cap" or row["quality"] not in "AB":
            continue
        answer, truth = predicted(row), float(row["peak_gib"])
        with fitted.without(row["source"], fitted.NUMBERS):
            blind = predicted(row)
        job = answer.job
        found.append(
            Reading(
                row["source"], job.framework.name, parse_regime(row), job.layout.cards == 1,
                truth / answer.reading_gib, truth / blind.reading_gib,
            )
        )  # fmt: skip
    return found


def find_quantile(values: Sequence[tuple[float, float]], share: float) -> float:
    """The quantile of (value, weight), interpolated between the middles of the weights."""
    ordered, total, middle = sorted(values), sum(weight for _, weight in values), 0.0
    points = []
    for value, weight in ordered:
        points.append(((middle + weight / 2) / total, value))
        middle += weight
    if share <= points[0][0]:
        return points[0][1]
    for (a, low), (b, high) in itertools.pairwise(points):
        if share <= b:
            return low + (high - low) * (share - a) / (b - a)
    return points[-1][1]


def compute_factors(readings: Sequence[Reading], own: Callable[[Reading], float]) -> Factors:
    sizes = Counter(one.source for one in readings)
    values = [(math.log(own(one)), sizes[one.source] ** WEIGHT) for one in readings]
    low, high, limit = (find_quantile(values, share) for share in (LOW, HIGH, LIMIT))
    return Factors(min(0.0, low), max(0.0, high), max(0.0, limit), len(readings), len(sizes))


def build_finder(readings: Sequence[Reading]) -> tuple[dict[str, Factors], dict[str, Factors], Finder]:
    """Factors (logarithms) by regime and by framework, and the function that selects among them."""
    regimes = {
        name: compute_factors([one for one in readings if one.regime == name], lambda one: one.left_out)
        for name in REGIMES
    }
    frameworks = {}
    for key in sorted({(one.framework, one.regime) for one in readings if one.framework != SHARED}):
        mine = [one for one in readings if (one.framework, one.regime) == key]
        if len(mine) >= LEAST:
            frameworks["-".join(key)] = compute_factors(mine, lambda one: one.plain).draw_towards(regimes[key[1]])

    def find(one: Reading) -> Factors:
        return frameworks.get(one.key, regimes[one.regime])

    return regimes, frameworks, find


@dataclass(frozen=True)
class Outcome:
    reading: Reading
    ratio: float
    low: float
    high: float
    limit: float

    @property
    def is_inside(self) -> bool:
        return self.low <= self.ratio <= self.high


def leave_out(readings: Sequence[Reading]) -> list[Outcome]:
    """Each reading with the factors from all other sources."""
    found = []
    for source in sorted({one.source for one in readings}):
        find = build_finder([one for one in readings if one.source != source])[2]
        found += [judge(one, find(one), one.left_out) for one in readings if one.source == source]
    return found


def judge(one: Reading, factors: Factors, ratio: float) -> Outcome:
    return Outcome(one, ratio, *(math.exp(end) for end in (factors.low, factors.high, factors.limit)))


def describe(name: str, outcomes: Iterable[Outcome]) -> str:
    some = list(outcomes)
    if not some:
        return f"{name:30}{0:>6}"
    inside = sum(one.is_inside for one in some) / len(some)
    below = sum(one.ratio <= one.limit for one in some) / len(some)
    width = statistics.median(one.high - one.low for one in some)
    return f"{name:30}{len(some):>6}{inside:>9.1%}{width:>9.1%}{below:>9.1%}"


def print_report(readings: Sequence[Reading], blind: Sequence[Outcome], plain: Sequence[Outcome]) -> None:
    print(f"{'':30}{'rows':>6}{'inside':>9}{'width':>9}{'<= limit':>9}")
    for title, outcomes in (("sources left out", blind), ("all sources in use", plain)):
        print(describe(title, outcomes))
        print(describe("  one card", (one for one in outcomes if one.reading.single)))
        print(describe("  several cards", (one for one in outcomes if not one.reading.single)))
        for regime in REGIMES:
            print(describe(f"  {regime}", (one for one in outcomes if one.reading.regime == regime)))
    for source in sorted({one.source for one in readings}):
        print(describe(f"  left out: {source}", (one for one in blind if one.reading.source == source)))


def write_file(readings: Sequence[Reading], blind: Sequence[Outcome]) -> None:
    regimes, frameworks, _find = build_finder(readings)
    share = sum(one.is_inside for one in blind) / len(blind)
    width = statistics.median(one.high - one.low for one in blind)
    figures = f"{share:.1%} of {len(blind)} readings inside, median width {width:.1%}"
    lines = [HEADER.format(low=LOW, high=HIGH, limit=LIMIT, figures=figures)]
    for group, table in (("regimes", regimes), ("frameworks", frameworks)):
        for name, factors in table.items():
            same = [one for one in blind if name in (one.reading.regime, one.reading.key)]
            inside = sum(one.is_inside for one in same) / len(same)
            obeyed = sum(one.ratio <= one.limit for one in same) / len(same)
            lines.append(
                f"[{group}.{name}]\nlow = {math.exp(factors.low):.3f}\nhigh = {math.exp(factors.high):.3f}\n"
                f"limit = {math.exp(factors.limit):.3f}\n"
                f"readings = {factors.count}\nsources = {factors.sources}\n"
                f"inside = {inside:.3f}\nobeyed = {obeyed:.3f}\n"
            )
    FILE.write_text("\n".join(lines), encoding="utf-8")


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("rows", nargs="+", type=Path)
    ask.add_argument("--write", action="store_true", help=f"update {FILE.name}")
    given = ask.parse_args()
    readings = collect_readings([row for path in given.rows for row in csv.DictReader(path.open(newline=""))])
    blind = leave_out(readings)
    find = build_finder(readings)[2]
    print_report(readings, blind, [judge(one, find(one), one.plain) for one in readings])
    if given.write:
        write_file(readings, blind)
    return 0


if __name__ == "__main__":
    sys.exit(main())
