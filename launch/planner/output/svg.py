"""The frame of an SVG picture: light and dark colour scheme, title and description for screen readers.

It uses CSS classes, not variables: the PNG converter supports plain style sheets only, and uses the light scheme.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

# Class → CSS property, light colour, dark colour.
COLOUR_CLASSES = {
    "ground": ("fill", "#ffffff", "#18202a"),
    "beside": ("fill", "#e2e5e9", "#394656"),  # memory not available for tensors
    "soft": ("fill", "#4d5a69", "#a9b6c5"),
    "mark": ("fill", "#0969da", "#6cb6ff"),
    "grid": ("stroke", "#d8dee4", "#324050"),
    "axis": ("stroke", "#57606a", "#a9b6c5"),
    "curve": ("stroke", "#0969da", "#6cb6ff"),
}
TEXT = ("#1f2328", "#e8edf3")
_SCHEMES = ("", "@media(prefers-color-scheme:dark)")


def _style_sheet() -> str:
    rules = []
    for n, scheme in enumerate(_SCHEMES):
        ground = COLOUR_CLASSES["ground"][1 + n]
        inks = "".join(f".{name}{{{ink[0]}:{ink[1 + n]}}}" for name, ink in COLOUR_CLASSES.items())
        # The halo keeps text readable on lines.
        text = f"text{{fill:{TEXT[n]}}}text.soft{{fill:{COLOUR_CLASSES['soft'][1 + n]}}}.halo{{stroke:{ground}}}"
        rules.append(f"{scheme}{{{text}{inks}}}" if scheme else text + inks)
    return "".join((*rules, ".halo{stroke-width:3;paint-order:stroke}.curve{fill:none;stroke-width:2}"))


def draw_frame(width: float, height: float, title: str, description: str, parts: Iterable[str]) -> str:
    """Return a self-contained SVG document; `title` is its accessible name, `description` its content as text."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-labelledby="title description" '
        'font-family="system-ui,sans-serif" font-size="12">'
    )
    about = f'<title id="title">{escape(title)}</title><desc id="description">{escape(description)}</desc>'
    ground = f'<rect class="ground" width="{width:.0f}" height="{height:.0f}"/>'
    return "\n".join([head, about, f"<style>{_style_sheet()}</style>", ground, *parts, "</svg>\n"])


def draw_text(x: float, y: float, words: str, extra: str = "") -> str:
    """Return a text element; `extra` are further attributes."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{escape(words)}</text>'


def shorten_middle(words: str, most: int) -> str:
    """Return text of at most `most` characters; the middle of a longer one is replaced by …."""
    half = (most - 1) // 2
    return words if len(words) <= most else f"{words[:half]}…{words[-half:]}"
