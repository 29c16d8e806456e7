"""How near the memory planner comes to published readings: plain, and with each source left out.

    python -m benchmarks.memory_accuracy ROWS.csv [--worst N] [--refit]

ROWS.csv has the columns of docs/how-to/plan-memory.md, with the readings (`peak_gib`, `static_gib`, `verdict`), which
the planner never sees.  "Left out" means: every number that was fitted on rows of that source goes back to what theory
or a neighbouring source gives, and the source is predicted so; "and its mechanisms": those, too, that were looked for
because of its readings (benchmarks/fitted.py has both lists).  A source on which nothing rests keeps its error.
--refit prints the values of shared numbers that all other sources give: of the grid below the one with the least mean
over the sources of the median error of their readings (quality A and B).
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import fitted
from launch import planner
from launch.memory import GIB
from launch.planner import table_rows

WAYS = {
    "plain": (),
    "numbers left out": fitted.NUMBERS,
    "and its mechanisms": (*fitted.NUMBERS, *fitted.MECHANISMS),
}
GRIDS = {
    "*.growth": (1.0, 1.04, 1.08, 1.12, 1.16),
    "*.gather_growth": (1.08, 1.2, 1.4, 1.6),
}
ANSWERS = ("published", "unit", "peak_gib", "static_gib", "verdict", "notes", "ref", "id", "source", "kind")


def predicted(row: Mapping[str, str]) -> planner.LaunchPlan:
    return planner.plan(None, table_rows.build_row_job({**row, **dict.fromkeys(ANSWERS, "")}))


@dataclass(frozen=True)
class Miss:
    row: Mapping[str, str]
    said: float
    read: float
    where: str

    @property
    def error(self) -> float:
        return (self.said - self.read) / self.read


def misses(table: Sequence[Mapping[str, str]]) -> list[Miss]:
    """Readings of known length, each with its prediction."""
    found = []
    for row in table:
        if row["kind"] == "measured" and row["peak_gib"] and row["seq_kind"] != "cap":
            answer = predicted(row)
            found.append(Miss(row, answer.reading_gib, float(row["peak_gib"]), answer.deciding_label))
    return found


def summary(found: Sequence[Miss]) -> str:
    errors = sorted(abs(m.error) for m in found)
    if not errors:
        return " " * 32
    ninth = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    bias = statistics.median(m.error for m in found)
    return f"{statistics.median(errors):8.1%}{statistics.mean(errors):8.1%}{ninth:8.1%}{bias:+8.1%}"


def line(name: str, found: Sequence[Sequence[Miss]]) -> None:
    if found[0]:
        print(f"{name:18}{len(found[0]):>5}" + "".join(f"   {summary(one)}" for one in found))


def measure_sources(table: Sequence[Mapping[str, str]], name: str, value: float) -> dict[str, float]:
    """The median error of each source with that value of the number."""
    undo = fitted.put(name, value)
    found = misses(table)
    undo()
    sources = sorted({m.row["source"] for m in found})
    return {one: statistics.median(abs(math.log(m.said / m.read)) for m in found if m.row["source"] == one)
            for one in sources}  # fmt: skip


def print_refits(table: Sequence[Mapping[str, str]]) -> None:
    judged = [row for row in table if row["quality"] in "AB"]
    for one in fitted.NUMBERS:
        if one.refit:
            errors = {value: measure_sources(judged, one.name, value) for value in GRIDS[one.name]}
            for source in one.sources:
                means = {
                    value: statistics.mean(error for name, error in by_source.items() if name != source)
                    for value, by_source in errors.items()
                }
                print(f"{one.name} without {source}: {min(means, key=lambda value: means[value])}")


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("rows", nargs="+", type=Path)
    ask.add_argument("--worst", type=int, default=0, help="print the N worst rows of quality A and B")
    ask.add_argument("--refit", action="store_true", help="print shared numbers as the other sources give them")
    said = ask.parse_args()
    table = [row for path in said.rows for row in csv.DictReader(path.open(newline=""))]
    if said.refit:
        print_refits(table)
        return 0
    head = f"{'median':>8}{'mean':>8}{'p90':>8}{'bias':>8}"
    print(f"{'source':18}{'rows':>5}" + "".join(f"   {way:^32}" for way in WAYS) + f"\n{'':23}" + f"   {head}" * 3)
    every: list[list[Miss]] = [[] for _ in WAYS]
    for source in sorted({row["source"] for row in table}):
        own = [row for row in table if row["source"] == source]
        found = []
        for left_out in WAYS.values():
            with fitted.without(source, left_out):
                found.append(misses(own))
        line(source, found)
        every = [[*before, *more] for before, more in zip(every, found, strict=True)]
    for name, quality in (("quality A", "A"), ("quality A and B", "AB"), ("all", "ABC")):
        line(name, [[m for m in found if m.row["quality"] in quality] for found in every])
    steady = [(predicted(row).standing / GIB, float(row["static_gib"])) for row in table if row["static_gib"]]
    good = sum(abs(a - b) <= max(0.2, 0.01 * b) for a, b in steady)
    print(f"steady states within 1 % or 0.2 GiB: {good} of {len(steady)}")
    judged = [m for m in every[0] if m.row["quality"] in "AB"]
    for miss in sorted(judged, key=lambda m: -abs(m.error))[: said.worst]:
        row = miss.row
        print(f"  {row['id']:22}{row['model'][:22]:23}{row['method']:8}{miss.read:7.2f} read{miss.said:7.2f} said"
              f"{miss.error:+7.0%}  {miss.where}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
