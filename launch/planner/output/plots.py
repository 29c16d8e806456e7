"""Two plots as SVG: memory against time for a search, memory over one option for a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from launch.memory import GIB
from launch.planner.output.show import MARKS
from launch.planner.output.svg import frame, shortened, text
from launch.planner.search import Found, front, gib
from launch.planner.verdict import LaunchPlan

WIDE, HIGH, LEFT, TOP = 600, 320, 60, 48
BOTTOM, RIGHT = TOP + HIGH, LEFT + WIDE
COLOURS = {"fits": "#59a14f", "cannot-tell": "#edc948", "does-not-fit": "#e15759"}
LABEL = 46  # pixels that a label needs beside the next


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two, 1, 2 or 5 times a power of ten apart."""
    span = max(high - low, 1e-9)
    raw = span / about
    power = 10 ** math.floor(math.log10(raw))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= raw)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 9) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def upright(big: float) -> list[str]:
    """The axis of GiB, from 0 to `big`, with faint lines across."""
    parts = []
    for value in ticks(0, big):
        y = BOTTOM - value / big * HIGH
        parts.append(f'<path d="M{LEFT} {y:.1f}H{RIGHT}" class="grid"/>')
        parts.append(text(LEFT - 6, y + 4, f"{value:g}", 'text-anchor="end"'))
    return [*parts, f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" class="axis"/>']


def dot(x: float, y: float, colour: str, label: str, ring: bool = False) -> str:
    edge = 'class="axis" stroke-width="2"' if ring else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}" {edge}><title>{escape(label)}</title></circle>'


def search_svg(layouts: Iterable[Found]) -> str:
    """Memory of a card against the time of a step; the front is joined, the asked layout is a ring."""
    found = [f for f in layouts if f.step.total > 0]
    if not found:
        return frame(200, 60, "no layout", "", [text(10, 30, "no layout")])
    times = [f.step.total for f in found]
    room = max(0.06 * (max(times) - min(times)), 0.05 * max(times))
    quick, slow = max(0.0, min(times) - room), max(times) + room
    usable = found[0].plan.usable / GIB
    big = max(*(gib(f) for f in found), usable) * 1.1

    def across(seconds: float) -> float:
        return LEFT + (seconds - quick) / (slow - quick) * WIDE

    best, title = front(found), "memory of a card (GiB) against the time of a step (s)"
    joined = " ".join(f"{across(f.step.total):.1f},{BOTTOM - gib(f) / big * HIGH:.1f}" for f in best)
    limit = BOTTOM - usable / big * HIGH
    parts = [
        text(10, 20, title, 'font-weight="bold"'),
        *upright(big),
        *(text(across(t), BOTTOM + 16, f"{t:g}", 'text-anchor="middle"') for t in ticks(quick, slow)),
        f'<path d="M{LEFT} {limit:.1f}H{RIGHT}" class="axis" stroke-dasharray="4 3"/>',
        text(RIGHT, limit - 5, f"{usable:.1f} for tensors", 'class="halo" text-anchor="end" font-size="10"'),
        f'<polyline points="{joined}" fill="none" stroke="#e15759"/>',
    ]
    for one in found:
        label = f"{one.name}: {one.step.total:.1f} s, {gib(one):.1f} GiB, {MARKS[one.plan.verdict]}"
        colour = "#e15759" if one in best else "#4e79a7"
        parts.append(dot(across(one.step.total), BOTTOM - gib(one) / big * HIGH, colour, label, one.own))
    parts += [
        dot(LEFT + 8, BOTTOM + 34, "#e15759", "front"), text(LEFT + 18, BOTTOM + 38, "no other is faster and smaller"),
        dot(LEFT + 208, BOTTOM + 34, "#4e79a7", "others"), text(LEFT + 218, BOTTOM + 38, "others"),
        dot(LEFT + 278, BOTTOM + 34, "none", "asked", True), text(LEFT + 288, BOTTOM + 38, "the asked one"),
    ]  # fmt: skip
    said = "; ".join(f"{f.name}: {f.step.total:.1f} s, {gib(f):.1f} GiB" for f in best)
    return frame(RIGHT + 30, BOTTOM + 52, title, f"No layout is faster and smaller than: {said}.", parts)


def every(count: int) -> int:
    """Which of so many labels are written: all, every second, ... as there is room."""
    return max(1, math.ceil(count * LABEL / WIDE))


def sweep_svg(said: str, points: Iterable[tuple[int, LaunchPlan | str]]) -> str:
    """Memory of a card over the swept values, coloured by verdict, with its band; refused values are crosses."""
    points = list(points)
    plans = [plan for _, plan in points if not isinstance(plan, str)]
    if not plans:
        words = f"{shortened(said, 40)}: every value is refused"
        return frame(420, 60, words, "", [text(10, 30, words)])
    big = max(*(plan.high for plan in plans), *(plan.usable for plan in plans)) * 1.08 / GIB
    place = [(LEFT + (n + 0.5) / len(points) * WIDE, value, plan) for n, (value, plan) in enumerate(points)]
    drawn = [(x, plan) for x, _, plan in place if not isinstance(plan, str)]
    upper = [f"{x:.1f},{BOTTOM - p.high / GIB / big * HIGH:.1f}" for x, p in drawn]
    title = f"memory of a card (GiB) over {shortened(said, 60)}"
    lower = [f"{x:.1f},{BOTTOM - p.low / GIB / big * HIGH:.1f}" for x, p in reversed(drawn)]
    parts = [
        text(10, 20, title, 'font-weight="bold"'),
        *upright(big),
        f'<polygon points="{" ".join(upper + lower)}" fill="#4e79a7" opacity="0.2"/>',
        line([(x, p.deciding.total) for x, p in drawn], big, 'stroke="#4e79a7" stroke-width="2"'),
        line([(x, max(0.0, p.usable)) for x, p in drawn], big, 'class="axis" stroke-dasharray="4 3"'),
        *named(place, big),
        *legend(drawn[-1][1].usable / GIB),
    ]
    each = (f"{value}: {p if isinstance(p, str) else f'{p.need_gib:.1f} GiB'}" for _, value, p in place)
    return frame(RIGHT + 30, BOTTOM + 52, title, "; ".join(each), parts)


def line(points: Sequence[tuple[float, float]], big: float, style: str) -> str:
    joined = " ".join(f"{x:.1f},{BOTTOM - size / GIB / big * HIGH:.1f}" for x, size in points)
    return f'<polyline points="{joined}" fill="none" {style}/>'


def named(place: Sequence[tuple[float, int, LaunchPlan | str]], big: float) -> list[str]:
    """Dots and crosses, and of as many as there is room for the value below and the GiB above."""
    parts = []
    for n, (x, value, plan) in enumerate(place):
        write = n % every(len(place)) == 0
        if write:
            parts.append(text(x, BOTTOM + 16, f"{value}", 'text-anchor="middle"'))
        if isinstance(plan, str):
            cross = f'<path d="M{x - 4:.1f} {BOTTOM - 12}l8 8m0 -8l-8 8" stroke="#e15759" stroke-width="2">'
            parts.append(f"{cross}<title>{escape(plan)}</title></path>")
            continue
        y = BOTTOM - plan.need_gib / big * HIGH
        parts.append(dot(x, y, COLOURS[plan.verdict], f"{value}: {plan.need_gib:.1f} GiB, {MARKS[plan.verdict]}"))
        if write:
            parts.append(text(x, y - 10, f"{plan.need_gib:.1f}", 'text-anchor="middle" class="halo"'))
    return parts


def legend(usable: float) -> list[str]:
    parts, x, y = [], LEFT + 8, BOTTOM + 34
    for verdict, colour in COLOURS.items():
        parts += [dot(x, y, colour, verdict), text(x + 10, y + 4, MARKS[verdict])]
        x += 100
    parts.append(f'<path d="M{x - 4} {y - 4}l8 8m0 -8l-8 8" stroke="#e15759" stroke-width="2"/>')
    parts.append(text(x + 10, y + 4, "refused"))
    parts.append(f'<path d="M{x + 80} {y}h24" class="axis" stroke-dasharray="4 3"/>')
    return [*parts, text(x + 110, y + 4, f"for tensors ({usable:.1f} at the end)")]
