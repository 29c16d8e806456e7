"""Draw plots as SVG: memory against time for a search, memory over one option for a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from launch.memory import GIB
from launch.planner.output.svg import draw_frame, draw_text, shorten_middle
from launch.planner.output.terminal_text import MARKS
from launch.planner.search import LayoutResult, find_pareto_front, peak_gib
from launch.planner.verdict import LaunchPlan

WIDE, HIGH, LEFT, TOP = 600, 320, 60, 48
BOTTOM, RIGHT = TOP + HIGH, LEFT + WIDE
COLOURS = {"fits": "#59a14f", "unknown": "#edc948", "does-not-fit": "#e15759"}
LABEL = 46  # pixels per label


def list_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers from `low` to `high`, 1, 2 or 5 times a power of ten apart."""
    span = max(high - low, 1e-9)
    raw = span / about
    power = 10 ** math.floor(math.log10(raw))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= raw)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 9) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def draw_memory_axis(big: float) -> list[str]:
    """Return the GiB axis from 0 to `big`, with grid lines."""
    parts = []
    for value in list_ticks(0, big):
        y = BOTTOM - value / big * HIGH
        parts.append(f'<path d="M{LEFT} {y:.1f}H{RIGHT}" class="grid"/>')
        parts.append(draw_text(LEFT - 6, y + 4, f"{value:g}", 'text-anchor="end"'))
    return [*parts, f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" class="axis"/>']


def draw_dot(x: float, y: float, colour: str, label: str, ring: bool = False) -> str:
    """Return a dot with a tooltip; `ring` outlines it."""
    edge = 'class="axis" stroke-width="2"' if ring else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}" {edge}><title>{escape(label)}</title></circle>'


def draw_search_svg(layouts: Iterable[LayoutResult]) -> str:
    """Return the plot of a search: memory of a card over step time, with the Pareto front and the requested layout."""
    found = [f for f in layouts if f.step.total > 0]
    if not found:
        return draw_frame(200, 60, "no layout", "", [draw_text(10, 30, "no layout")])
    times = [f.step.total for f in found]
    room = max(0.06 * (max(times) - min(times)), 0.05 * max(times))
    quick, slow = max(0.0, min(times) - room), max(times) + room
    usable = found[0].plan.usable / GIB
    big = max(*(peak_gib(f) for f in found), usable) * 1.1

    def across(seconds: float) -> float:
        return LEFT + (seconds - quick) / (slow - quick) * WIDE

    best, title = find_pareto_front(found), "memory per card (GiB) over step time (s)"
    joined = " ".join(f"{across(f.step.total):.1f},{BOTTOM - peak_gib(f) / big * HIGH:.1f}" for f in best)
    limit = BOTTOM - usable / big * HIGH
    parts = [
        draw_text(10, 20, title, 'font-weight="bold"'),
        *draw_memory_axis(big),
        *(draw_text(across(t), BOTTOM + 16, f"{t:g}", 'text-anchor="middle"') for t in list_ticks(quick, slow)),
        f'<path d="M{LEFT} {limit:.1f}H{RIGHT}" class="axis" stroke-dasharray="4 3"/>',
        draw_text(RIGHT, limit - 5, f"{usable:.1f} for tensors", 'class="halo" text-anchor="end" font-size="10"'),
        f'<polyline points="{joined}" fill="none" stroke="#e15759"/>',
    ]
    for one in found:
        label = f"{one.name}: {one.step.total:.1f} s, {peak_gib(one):.1f} GiB, {MARKS[one.plan.verdict]}"
        colour = "#e15759" if one in best else "#4e79a7"
        parts.append(
            draw_dot(across(one.step.total), BOTTOM - peak_gib(one) / big * HIGH, colour, label, one.is_requested)
        )
    parts += [
        draw_dot(LEFT + 8, BOTTOM + 34, "#e15759", "front"),
        draw_text(LEFT + 18, BOTTOM + 38, "Pareto front: none is faster and smaller"),
        draw_dot(LEFT + 268, BOTTOM + 34, "#4e79a7", "others"), draw_text(LEFT + 278, BOTTOM + 38, "others"),
        draw_dot(LEFT + 338, BOTTOM + 34, "none", "requested", True),
        draw_text(LEFT + 348, BOTTOM + 38, "requested layout"),
    ]  # fmt: skip
    front = "; ".join(f"{f.name}: {f.step.total:.1f} s, {peak_gib(f):.1f} GiB" for f in best)
    return draw_frame(RIGHT + 30, BOTTOM + 52, title, f"No layout is faster and smaller than: {front}.", parts)


def find_label_interval(count: int) -> int:
    """Return n if every n-th of `count` labels fits on the axis."""
    return max(1, math.ceil(count * LABEL / WIDE))


def draw_sweep_svg(axis: str, points: Iterable[tuple[int, LaunchPlan | str]]) -> str:
    """Return the plot of a sweep: memory over the values with its uncertainty; rejected values are crosses.

    `axis` is the swept option.
    """
    points = list(points)
    plans = [plan for _, plan in points if not isinstance(plan, str)]
    if not plans:
        words = f"{shorten_middle(axis, 40)}: all values rejected"
        return draw_frame(420, 60, words, "", [draw_text(10, 30, words)])
    big = max(*(plan.high for plan in plans), *(plan.usable for plan in plans)) * 1.08 / GIB
    place = [(LEFT + (n + 0.5) / len(points) * WIDE, value, plan) for n, (value, plan) in enumerate(points)]
    drawn = [(x, plan) for x, _, plan in place if not isinstance(plan, str)]
    upper = [f"{x:.1f},{BOTTOM - p.high / GIB / big * HIGH:.1f}" for x, p in drawn]
    title = f"memory per card (GiB) over {shorten_middle(axis, 60)}"
    lower = [f"{x:.1f},{BOTTOM - p.low / GIB / big * HIGH:.1f}" for x, p in reversed(drawn)]
    parts = [
        draw_text(10, 20, title, 'font-weight="bold"'),
        *draw_memory_axis(big),
        f'<polygon points="{" ".join(upper + lower)}" fill="#4e79a7" opacity="0.2"/>',
        draw_curve([(x, p.deciding.total) for x, p in drawn], big, 'stroke="#4e79a7" stroke-width="2"'),
        draw_curve([(x, max(0.0, p.usable)) for x, p in drawn], big, 'class="axis" stroke-dasharray="4 3"'),
        *draw_points(place, big),
        *draw_legend(drawn[-1][1].usable / GIB),
    ]
    each = (f"{value}: {p if isinstance(p, str) else f'{p.need_gib:.1f} GiB'}" for _, value, p in place)
    return draw_frame(RIGHT + 30, BOTTOM + 52, title, "; ".join(each), parts)


def draw_curve(points: Sequence[tuple[float, float]], big: float, style: str) -> str:
    """Return a polyline through points of (x, bytes)."""
    joined = " ".join(f"{x:.1f},{BOTTOM - size / GIB / big * HIGH:.1f}" for x, size in points)
    return f'<polyline points="{joined}" fill="none" {style}/>'


def draw_points(place: Sequence[tuple[float, int, LaunchPlan | str]], big: float) -> list[str]:
    """Return dots and crosses; as many as fit are labelled with value and GiB."""
    parts = []
    for n, (x, value, plan) in enumerate(place):
        write = n % find_label_interval(len(place)) == 0
        if write:
            parts.append(draw_text(x, BOTTOM + 16, f"{value}", 'text-anchor="middle"'))
        if isinstance(plan, str):
            cross = f'<path d="M{x - 4:.1f} {BOTTOM - 12}l8 8m0 -8l-8 8" stroke="#e15759" stroke-width="2">'
            parts.append(f"{cross}<title>{escape(plan)}</title></path>")
            continue
        y = BOTTOM - plan.need_gib / big * HIGH
        parts.append(draw_dot(x, y, COLOURS[plan.verdict], f"{value}: {plan.need_gib:.1f} GiB, {MARKS[plan.verdict]}"))
        if write:
            parts.append(draw_text(x, y - 10, f"{plan.need_gib:.1f}", 'text-anchor="middle" class="halo"'))
    return parts


def draw_legend(usable: float) -> list[str]:
    """Return the legend of a sweep; `usable` is the memory for tensors at the last value, GiB."""
    parts, x, y = [], LEFT + 8, BOTTOM + 34
    for verdict, colour in COLOURS.items():
        parts += [draw_dot(x, y, colour, verdict), draw_text(x + 10, y + 4, MARKS[verdict])]
        x += 100
    parts.append(f'<path d="M{x - 4} {y - 4}l8 8m0 -8l-8 8" stroke="#e15759" stroke-width="2"/>')
    parts.append(draw_text(x + 10, y + 4, "rejected"))
    parts.append(f'<path d="M{x + 80} {y}h24" class="axis" stroke-dasharray="4 3"/>')
    return [*parts, draw_text(x + 110, y + 4, f"for tensors ({usable:.1f} at the last value)")]
