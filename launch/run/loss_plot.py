"""The loss over the steps: a picture in the run's folder, and a small one for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from envcheck.core.language import label
from envcheck.core.language.width import columns as wide
from launch.logs.step import TrainingStep
from launch.planner.output.svg import frame

Point = tuple[float, float]
WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 56, 52
POINTS = 1000  # drawn at most; a long run is thinned


def points(steps: Sequence[TrainingStep]) -> list[Point]:
    """(step, loss) with the numbers that the program gave, else counted; what is no finite number is left out."""
    every = max(1, math.ceil(len(steps) / POINTS))
    chosen = [*enumerate(steps, 1)]
    chosen = chosen[::every] + chosen[-1:] if (len(chosen) - 1) % every else chosen[::every]
    return [(number if s.step is None else s.step, s.loss) for number, s in chosen if math.isfinite(s.loss)]


def svg(steps: Sequence[TrainingStep], title: str) -> str:
    """A picture of its own, without anything from elsewhere; with too few points it says so."""
    found = points(steps)
    words = "too few steps to draw"
    body = _plot(found) if len(found) > 1 else f'<text x="{LEFT}" y="{HEIGHT / 2}">{words}</text>'
    if len(found) > 1:
        (first, high), (last, low) = found[0], found[-1]
        words = f"The loss of steps {first:g} to {last:g}, from {high:.3f} to {low:.3f}."
    heading = f'<text x="{LEFT}" y="30" font-size="16" font-weight="600">{escape(title)}</text>'
    return frame(WIDTH, HEIGHT, title, words, [heading, body])


def _plot(found: Sequence[Point]) -> str:
    x_ticks, y_ticks = ticks(*_span(p[0] for p in found)), ticks(*_span(p[1] for p in found))
    (x0, x1), (y0, y1) = _span((*x_ticks, *(p[0] for p in found))), _span(y_ticks)

    def x(value: float) -> float:
        return round(LEFT + (value - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (value - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM), 1)

    floor = HEIGHT - BOTTOM
    parts = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(t)}" y2="{y(t)}"/>'
        f'<text class="soft" x="{LEFT - 8}" y="{y(t) + 4}" text-anchor="end">{t:g}</text>'
        for t in y_ticks
    ]
    parts += [f'<text class="soft" x="{x(t)}" y="{floor + 18}" text-anchor="middle">{t:g}</text>' for t in x_ticks]
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor}" y2="{floor}"/>')
    parts.append(
        f'<text class="soft" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">step</text>'
    )
    parts.append(
        f'<text class="soft" transform="translate(16 {(TOP + floor) / 2}) rotate(-90)" text-anchor="middle">loss</text>'
    )
    parts.append(f'<polyline class="curve" points="{" ".join(f"{x(a)},{y(b)}" for a, b in found)}"/>')
    last = found[-1]
    parts.append(f'<circle class="mark" cx="{x(last[0])}" cy="{y(last[1])}" r="4"/>')
    parts.append(f'<text class="halo" x="{x(last[0])}" y="{y(last[1]) - 10}" text-anchor="end">{last[1]:.3f}</text>')
    return "".join(parts)


def ticks(low: float, high: float, about: int = 5) -> tuple[float, ...]:
    """Round numbers from at or below `low` to at or above `high`."""
    rough = (high - low) / about
    size = 10 ** math.floor(math.log10(rough))
    step = next(f * size for f in (1, 2, 2.5, 5, 10) if f * size >= rough * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    return tuple(float(f"{n * step:.12g}") for n in range(first, last + 1))


def _span(values: Iterable[float]) -> Point:
    """Lowest and highest, apart even where all are equal."""
    found = list(values)
    low, high = min(found), max(found)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def text(steps: Sequence[TrainingStep], width: int = 60, height: int = 9, mark: str = "*") -> str:
    """The same in characters; each column is the mean of its steps."""
    found = points(steps)
    if len(found) < 2:
        return ""
    losses = [loss for _, loss in found]
    width = min(width, len(losses))
    columns = [_mean(losses[i * len(losses) // width : (i + 1) * len(losses) // width]) for i in range(width)]
    low, high = _span(columns)
    rows = [round((high - value) / (high - low) * (height - 1)) for value in columns]
    labels = {0: f"{high:.2f}", height - 1: f"{low:.2f}"}
    lines = [
        f"{labels.get(row, ''):>8} |" + "".join(mark if at == row else " " for at in rows).rstrip()
        for row in range(height)
    ]
    ends = f"{'':>10}{found[0][0]:g}".ljust(10 + width - len(f"{found[-1][0]:g}")) + f"{found[-1][0]:g}"
    heading, foot = label("loss"), f"{ends}  {label('step')}"
    return "\n".join([" " * (8 - wide(heading)) + heading, *lines, f"{'':>8} +{'-' * width}", foot])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
