"""Plot the loss over the steps: as SVG for the run folder, and as text for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from envcheck.core.language import translate
from envcheck.core.language.width import display_width as wide
from envcheck.core.messages import NOTHING, Message, _, join, ngettext
from launch.logs.training_step import TrainingStep
from launch.planner.output.svg import draw_frame

Point = tuple[float, float]
WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 56, 52
POINTS = 1000  # maximum number of points; longer runs are thinned out


def select_points(steps: Sequence[TrainingStep]) -> list[Point]:
    """Return (step, loss) points; unnumbered steps are counted, losses that are not finite are omitted."""
    every = max(1, math.ceil(len(steps) / POINTS))
    chosen = [*enumerate(steps, 1)]
    chosen = chosen[::every] + chosen[-1:] if (len(chosen) - 1) % every else chosen[::every]
    return [(number if s.step is None else s.step, s.loss) for number, s in chosen if math.isfinite(s.loss)]


def describe_omitted(steps: Sequence[TrainingStep]) -> Message:
    """Return how many losses the plot cannot show, and the step of the first one."""
    first: dict[str, int] = {}
    counts: dict[str, int] = {}
    for number, step in enumerate(steps, 1):
        if not math.isfinite(step.loss):
            name = f"{step.loss:g}"
            first.setdefault(name, number if step.step is None else step.step)
            counts[name] = counts.get(name, 0) + 1
    parts = [_describe_count(name, counts[name], at) for name, at in first.items()]
    return _("not drawn: {losses}", losses=join("; ", parts)) if parts else NOTHING


def _describe_count(value: str, count: int, first: int) -> Message:
    return ngettext(
        "{value} at step {step}", "{value} at {count} steps, the first is {step}", count, value=value, step=first
    )


def render_svg(steps: Sequence[TrainingStep], title: str) -> str:
    """Return a self-contained SVG; with fewer than two points it contains a note instead of a curve."""
    found = select_points(steps)
    words = translate(_("too few steps for a curve"))
    body = _draw_plot(found) if len(found) > 1 else f'<text x="{LEFT}" y="{HEIGHT / 2}">{escape(words)}</text>'
    if len(found) > 1:
        (first, high), (last, low) = found[0], found[-1]
        words = translate(
            _(
                "Loss from {high:.3f} at step {first:g} to {low:.3f} at step {last:g}.",
                first=first,
                last=last,
                high=high,
                low=low,
            )
        )
    title, omitted = translate(title), describe_omitted(steps)
    if omitted:
        words = f"{words} {translate(omitted)}"
        place = f'x="{WIDTH - RIGHT}" y="{TOP - 8}" text-anchor="end"'
        body += f'<text class="soft" {place}>{escape(translate(omitted))}</text>'
    heading = f'<text x="{LEFT}" y="30" font-size="16" font-weight="600">{escape(title)}</text>'
    return draw_frame(WIDTH, HEIGHT, title, words, [heading, body])


def save_curve(run: Path, steps: Sequence[TrainingStep], recipe: str, method: str) -> None:
    """Write loss.svg into the folder of a run; raises OSError."""
    title = _("{recipe}, {method}: loss", recipe=recipe, method=method)
    (run / "loss.svg").write_text(render_svg(steps, title), encoding="utf-8")


def _draw_plot(found: Sequence[Point]) -> str:
    x_ticks, y_ticks = list_ticks(*_find_span(p[0] for p in found)), list_ticks(*_find_span(p[1] for p in found))
    (x0, x1), (y0, y1) = _find_span((*x_ticks, *(p[0] for p in found))), _find_span(y_ticks)

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
        f'<text class="soft" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">'
        f"{escape(translate(_('step')))}</text>"
    )
    parts.append(
        f'<text class="soft" transform="translate(16 {(TOP + floor) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(translate(_('loss')))}</text>"
    )
    parts.append(f'<polyline class="curve" points="{" ".join(f"{x(a)},{y(b)}" for a, b in found)}"/>')
    last = found[-1]
    parts.append(f'<circle class="mark" cx="{x(last[0])}" cy="{y(last[1])}" r="4"/>')
    parts.append(f'<text class="halo" x="{x(last[0])}" y="{y(last[1]) - 10}" text-anchor="end">{last[1]:.3f}</text>')
    return "".join(parts)


def list_ticks(low: float, high: float, about: int = 5) -> tuple[float, ...]:
    """Return about `about` round numbers that cover `low` to `high`."""
    rough = (high - low) / about
    size = 10 ** math.floor(math.log10(rough))
    step = next(f * size for f in (1, 2, 2.5, 5, 10) if f * size >= rough * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    return tuple(float(f"{n * step:.12g}") for n in range(first, last + 1))


def _find_span(values: Iterable[float]) -> Point:
    """Return (minimum, maximum), widened if all values are equal."""
    found = list(values)
    low, high = min(found), max(found)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def render_text(steps: Sequence[TrainingStep], width: int = 60, height: int = 9, mark: str = "*") -> str:
    """Return the plot as text, "" with fewer than two points; each column is the mean of its steps."""
    found = select_points(steps)
    if len(found) < 2:
        return ""
    losses = [loss for _, loss in found]
    width = min(width, len(losses))
    columns = [_mean(losses[i * len(losses) // width : (i + 1) * len(losses) // width]) for i in range(width)]
    low, high = _find_span(columns)
    rows = [round((high - value) / (high - low) * (height - 1)) for value in columns]
    labels = {0: f"{high:.2f}", height - 1: f"{low:.2f}"}
    lines = [
        f"{labels.get(row, ''):>8} |" + "".join(mark if at == row else " " for at in rows).rstrip()
        for row in range(height)
    ]
    ends = f"{'':>10}{found[0][0]:g}".ljust(10 + width - len(f"{found[-1][0]:g}")) + f"{found[-1][0]:g}"
    heading, foot = translate(_("loss")), f"{ends}  {translate(_('step'))}"
    omitted = [f"{'':>10}{translate(text)}"] if (text := describe_omitted(steps)) else []
    return "\n".join([" " * (8 - wide(heading)) + heading, *lines, f"{'':>8} +{'-' * width}", foot, *omitted])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
