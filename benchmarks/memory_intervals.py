"""The intervals of the memory planner: factors from published readings, and their coverage when a source is left out.

    python -m benchmarks.memory_intervals ROWS.csv ... [--write] [--quantiles]

ROWS.csv as for benchmarks.memory_accuracy; readings of quality A and B count.  The factors of a regime are weighted
quantiles of reading / prediction, each source predicted without the numbers that were fitted on it
(benchmarks/fitted.py), drawn towards those of all readings: s/(s + 2) of their own for s sources, in logarithms.  The n
readings of a source weigh n^0.5 together.  "Left out": factors from all other sources, the source's own fitted numbers
put back.  Where a row leaves inputs open, its bounds are factors of the least and the largest prediction for their
values, as in a plan, and its residual is relative to the nearest.  The regime of assumed settings has all
readings, each predicted without the name of its framework.  --write updates launch/catalogue/residuals.toml, and
--quantiles searches those below.
"""

from __future__ import annotations

import argparse
import bisect
import csv
import itertools
import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import fitted
from benchmarks.memory_accuracy import predicted
from launch.memory.intervals import (
    ASSUMED,
    COMPLEX,
    DIVIDED,
    FILE,
    MOVED,
    PLAIN,
    REGIMES,
    REPLICAS,
    RESERVED,
    ROUTED,
    UNNAMED,
    UNSPECIFIED,
    WHOLE,
    find_regime,
)
from launch.planner import LaunchPlan, verdict

LIMIT = 0.98  # quantile of the upper limit
# Low and high quantile by regime: the narrowest that hold HELD of its readings of left-out sources (--quantiles).
QUANTILES = {
    "whole": (0.04, 0.8), "reserved": (0.08, 0.94), "unnamed": (0.02, 0.92), "replicas": (0.11, 0.9),
    "plain": (0.04, 0.88), "divided": (0.1, 0.96), "complex": (0.03, 0.95), "experts": (0.08, 0.96),
    "routed": (0.04, 0.985), "moved": (0.02, 0.94), "unspecified": (0.06, 0.94), "assumed": (0.03, 0.96),
}  # fmt: skip
# Regimes of few sources, and those whose readings give their factors.
POOLS = {
    RESERVED: (WHOLE, RESERVED), UNNAMED: (WHOLE, RESERVED, UNNAMED), PLAIN: (REPLICAS, PLAIN),
    COMPLEX: (DIVIDED, COMPLEX), ROUTED: (DIVIDED, COMPLEX, ROUTED), MOVED: (DIVIDED, COMPLEX, MOVED),
    UNSPECIFIED: (PLAIN, COMPLEX, UNSPECIFIED),
}  # fmt: skip
HELD = 0.9  # on one card, on several, and with all sources in use, since those are the bounds that a plan prints
LOWS, HIGHS = range(1, 16), range(80, 100)  # percentages among which --quantiles searches
PULL, WEIGHT = 2, -0.5  # sources as which those of all regimes count; power of the number of a source's readings
HEADER = """# Factors between which readings lie, relative to predictions (launch/memory/intervals.py).
# `low`, `high`: the quantiles {quantiles};
# `limit`: that of {limit:.0%}.  `readings`, `sources`: their numbers, of quality A and B.
# `inside`, `obeyed`: share of the readings of left-out sources that lie in their interval, and not above their limit.
# Written by python -m benchmarks.memory_intervals.  Left out: {figures}.
"""


@dataclass(frozen=True)
class Reading:
    table: str
    source: str
    regime: str
    single: bool
    plain: float  # reading / prediction
    left_out: float  # without the numbers fitted on its source
    plain_open: tuple[float, float] = (1.0, 1.0)  # least and most by open inputs / prediction
    left_out_open: tuple[float, float] = (1.0, 1.0)

    @property
    def residual(self) -> float:
        """The reading without numbers fitted on its source, relative to the nearest prediction by open inputs."""
        least, most = self.left_out_open
        return self.left_out / min(max(self.left_out, least), most)


@dataclass(frozen=True)
class Factors:
    low: float
    high: float
    limit: float
    sources: int = 0

    def draw_towards(self, whole: Factors) -> Factors:
        """These factors, with those of all readings."""
        share = self.sources / (self.sources + PULL)
        ends = ("low", "high", "limit")
        drawn = {name: share * getattr(self, name) + (1 - share) * getattr(whole, name) for name in ends}
        return replace(self, **drawn)


def collect_readings(table: Sequence[dict[str, str]]) -> list[Reading]:
    """Return the readings of the table, each as its row is and once more without its framework."""
    found = []
    for row in table:
        if row["kind"] == "measured" and row["peak_gib"] and row["seq_kind"] != "cap" and row["quality"] in "AB":
            found += [compare_row(row), compare_row({**row, "framework": ""})]
    return found


def compare_row(row: dict[str, str]) -> Reading:
    answer, truth = predicted(row), float(row["peak_gib"])
    with fitted.without(row["source"], fitted.NUMBERS):
        blind = predicted(row)
        left_out_open = find_open_range(blind)
    job = answer.job
    return Reading(
        row["table"], row["source"], find_regime(job), job.layout.cards == 1,
        truth / answer.reading_gib, truth / blind.reading_gib, find_open_range(answer), left_out_open,
    )  # fmt: skip


def find_open_range(answer: LaunchPlan) -> tuple[float, float]:
    """The least and largest prediction for other values of inputs that the row leaves open, as factors."""
    reading = answer.reading_gib
    low, high = verdict.find_range(answer.job, reading, lambda job: verdict.evaluate_job(job).reading_gib)
    return low / reading, high / reading


@dataclass(frozen=True)
class Distribution:
    """Logarithms of weighted residuals, at the middles of their weights; `sources`: their number."""

    shares: tuple[float, ...]
    values: tuple[float, ...]
    sources: int

    def find_quantile(self, share: float) -> float:
        """The quantile, interpolated between the middles of the weights."""
        at = bisect.bisect_left(self.shares, share)
        if at in (0, len(self.shares)):
            return self.values[min(at, len(self.values) - 1)]
        (a, b), (low, high) = self.shares[at - 1 : at + 1], self.values[at - 1 : at + 1]
        return low + (high - low) * (share - a) / (b - a)


def order_residuals(readings: Sequence[Reading]) -> Distribution:
    sizes = Counter(one.source for one in readings)
    ordered = sorted((math.log(one.residual), sizes[one.source] ** WEIGHT) for one in readings)
    sums = list(itertools.accumulate(weight for _, weight in ordered))
    middles = tuple((above - weight / 2) / sums[-1] for above, (_, weight) in zip(sums, ordered, strict=True))
    return Distribution(middles, tuple(value for value, _ in ordered), len(sizes))


def find_factors(found: Distribution, quantiles: Sequence[float]) -> Factors:
    low, high, limit = (found.find_quantile(share) for share in quantiles)
    return Factors(min(0.0, low), max(0.0, high), max(0.0, high, limit), found.sources)


def compute_regimes(readings: Sequence[Reading]) -> dict[str, Factors]:
    """Factors (logarithms) by regime."""
    return {name: compute_regime(order_regime(readings, name), QUANTILES[name]) for name in REGIMES}


def order_regime(readings: Sequence[Reading], name: str) -> tuple[Distribution, Distribution | None]:
    """The residuals of a regime, and those of all readings, towards which its factors are drawn."""
    own = order_residuals([one for one in readings if one.regime in POOLS.get(name, (name,))])
    named = [one for one in readings if one.regime != ASSUMED]
    return own, order_residuals(named) if name != ASSUMED else None


def compute_regime(found: tuple[Distribution, Distribution | None], quantiles: tuple[float, float]) -> Factors:
    """The factors (logarithms) of a regime, for its low and high quantile."""
    own, named = found
    shares = (*quantiles, LIMIT)
    factors = find_factors(own, shares)
    return factors.draw_towards(find_factors(named, shares)) if named else factors


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
        factors = compute_regimes([one for one in readings if one.source != source])
        found += [
            judge(one, factors[one.regime], one.left_out, one.left_out_open) for one in readings if one.source == source
        ]
    return found


def find_quantiles(readings: Sequence[Reading], name: str) -> tuple[float, float]:
    """The quantiles of the narrowest bounds that hold enough of the regime's readings, each source left out.

    Those that hold most, if none hold enough.
    """
    mine = [one for one in readings if one.regime == name]
    others = {
        source: order_regime([one for one in readings if one.source != source], name)
        for source in {one.source for one in mine}
    }
    every, found = order_regime(readings, name), []
    for pair in ((low / 100, high / 100) for low, high in itertools.product(LOWS, HIGHS)):
        factors = {source: compute_regime(some, pair) for source, some in others.items()}
        printed = compute_regime(every, pair)
        outcomes = [judge(one, factors[one.source], one.left_out, one.left_out_open) for one in mine]
        parts = [[one for one in outcomes if one.reading.single is single] for single in (True, False)]
        parts.append([judge(one, printed, one.plain, one.plain_open) for one in mine])
        held = min(sum(one.is_inside for one in part) / len(part) for part in parts if part)
        found.append((min(held, HELD), -statistics.median(one.high - one.low for one in outcomes), pair))
    return max(found)[2]


def judge(one: Reading, factors: Factors, ratio: float, spread: tuple[float, float]) -> Outcome:
    low, high, limit = (math.exp(end) for end in (factors.low, factors.high, factors.limit))
    return Outcome(one, ratio, low * spread[0], high * spread[1], limit * spread[1])


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
        known = [one for one in outcomes if one.reading.regime != ASSUMED]
        print(describe(title, known))
        print(describe("  one card", (one for one in known if one.reading.single)))
        print(describe("  several cards", (one for one in known if not one.reading.single)))
        for regime in REGIMES:
            same = [one for one in outcomes if one.reading.regime == regime]
            print(describe(f"  {regime}", same))
            print(describe(f"  {regime}, one card", (one for one in same if one.reading.single)))
            print(describe(f"  {regime}, several cards", (one for one in same if not one.reading.single)))
    for table in sorted({one.table for one in readings}):
        some = (one for one in blind if one.reading.table == table and one.reading.regime != ASSUMED)
        print(describe(f"  left out: {table}", some))
    for source in sorted({one.source for one in readings}):
        some = (one for one in blind if one.reading.source == source and one.reading.regime != ASSUMED)
        print(describe(f"  left out: {source}", some))


def write_file(readings: Sequence[Reading], blind: Sequence[Outcome]) -> None:
    known = [one for one in blind if one.reading.regime != ASSUMED]
    share = sum(one.is_inside for one in known) / len(known)
    width = statistics.median(one.high - one.low for one in known)
    figures = f"{share:.1%} of {len(known)} readings inside, median width {width:.1%}"
    quantiles = ", ".join(f"{low:.0%} and {high:.0%} ({name})" for name, (low, high) in QUANTILES.items())
    lines = [HEADER.format(quantiles=quantiles, limit=LIMIT, figures=figures)]
    for name, factors in compute_regimes(readings).items():
        same = [one for one in blind if name == one.reading.regime]
        inside = sum(one.is_inside for one in same) / len(same)
        obeyed = sum(one.ratio <= one.limit for one in same) / len(same)
        lines.append(
            f"[regimes.{name}]\nlow = {math.exp(factors.low):.3f}\nhigh = {math.exp(factors.high):.3f}\n"
            f"limit = {math.exp(factors.limit):.3f}\n"
            f"readings = {len(same)}\nsources = {len({one.reading.source for one in same})}\n"
            f"inside = {inside:.3f}\nobeyed = {obeyed:.3f}\n"
        )
    FILE.write_text("\n".join(lines), encoding="utf-8")


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("rows", nargs="+", type=Path)
    ask.add_argument("--write", action="store_true", help=f"update {FILE.name}")
    ask.add_argument("--quantiles", action="store_true", help="print the quantiles of the narrowest bounds")
    given = ask.parse_args()
    rows = [{**row, "table": path.stem} for path in given.rows for row in csv.DictReader(path.open(newline=""))]
    readings = collect_readings(rows)
    if given.quantiles:
        print({name: find_quantiles(readings, name) for name in REGIMES})
        return 0
    blind = leave_out(readings)
    factors = compute_regimes(readings)
    print_report(readings, blind, [judge(one, factors[one.regime], one.plain, one.plain_open) for one in readings])
    if given.write:
        write_file(readings, blind)
    return 0


if __name__ == "__main__":
    sys.exit(main())
