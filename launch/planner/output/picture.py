"""Draw a plan as SVG: stacked bars per phase and stage, compared with the card."""

from __future__ import annotations

from html import escape

from launch.memory import GIB
from launch.planner import LaunchPlan
from launch.planner.output.svg import draw_frame, draw_text, shorten_middle
from launch.planner.output.terminal_text import name_verdict, select_phases
from launch.planner.output.terms import TERMS

LEFT, BAR, ROW, TOP = 190, 640, 24, 64
BESIDE = "beside"


def draw_box(x: float, y: float, width: float, height: float, colour: str, title: str) -> str:
    """Return a rectangle with a tooltip; `colour` is #rrggbb or a class of the style sheet."""
    paint = f'fill="{colour}"' if colour.startswith("#") else f'class="{colour}"'
    rect = f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{height}" {paint}>'
    return f"{rect}<title>{escape(title)}</title></rect>"


def draw_line(x: float, top: float, bottom: float) -> str:
    """Return a dashed vertical line."""
    return f'<line class="axis" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke-dasharray="4 3"/>'


def draw_plan_svg(plan: LaunchPlan) -> str:
    """Return the picture; dashed lines mark the memory for tensors and the size of the card.

    Pictures are in English: the font for PNG files has no Chinese glyphs.
    """
    rows = select_phases(plan)
    card = plan.job.memory_gib * GIB
    scale = BAR / max(card, plan.deciding.total * 1.02)
    bottom = TOP + ROW * len(rows)
    x = plan.job.layout
    name = shorten_middle(plan.job.model.name, 36)
    card_gib = round(plan.job.memory_gib, 2)
    title = f"{name} on {x.cards} x {card_gib:g} GiB {plan.job.device.name}: {name_verdict(plan)}"
    totals: list[str] = []  # drawn last, above the lines
    usable = max(0.0, plan.usable)
    beside = ", ".join(f"{name} {size / GIB:.2f} GiB" for name, size in plan.outside)
    parts = [
        draw_text(10, 22, title, 'font-size="15" font-weight="bold"'),
        draw_text(10, 42, plan.reason),
        draw_box(LEFT + usable * scale, TOP - 4, (card - usable) * scale, bottom - TOP + 4, BESIDE, beside),
    ]
    for n, phase in enumerate(rows):
        y, at = TOP + ROW * n, float(LEFT)
        weight = 'font-weight="bold"' if phase is plan.deciding else ""
        parts.append(draw_text(10, y + 15, plan.label_phase(phase), weight))
        for name, size in phase.terms:
            if size > 0:
                parts.append(draw_box(at, y, size * scale, ROW - 5, TERMS[name].colour, f"{name} {size / GIB:.2f} GiB"))
                at += size * scale
        totals.append(draw_text(at + 4, y + 15, f"{phase.total / GIB:.1f}", f'{weight} class="halo"'))
    for size, words, side in ((usable, "for tensors", "end"), (card, "card", "start")):
        parts.append(draw_line(LEFT + size * scale, TOP - 8, bottom))
        aside = 2 if side == "start" else -2
        label = f"{size / GIB:.1f} {words}"
        parts.append(draw_text(LEFT + size * scale + aside, TOP - 8, label, f'text-anchor="{side}" font-size="10"'))
    parts += totals
    used = [n for n in TERMS if any(n == name and size > 0.01 * GIB for p in rows for name, size in p.terms)]
    legend = [*((TERMS[name].colour, name) for name in used), (BESIDE, "context, others")]
    for n, (colour, name) in enumerate(legend):
        lx, ly = LEFT + (n % 4) * 165, bottom + 14 + (n // 4) * 18
        parts += [draw_box(lx, ly, 11, 11, colour, name), draw_text(lx + 16, ly + 10, name)]
    description = f"{plan.reason}. " + "; ".join(f"{plan.label_phase(p)}: {p.total / GIB:.1f} GiB" for p in rows)
    height = bottom + 30 + 18 * ((len(legend) - 1) // 4 + 1)
    return draw_frame(LEFT + BAR + 60, height, title, f"{description}; {usable / GIB:.1f} GiB for tensors.", parts)
