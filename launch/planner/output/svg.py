"""The frame of a picture: in both colour schemes, with a title and a description for who does not see it.

Classes and not variables: what makes a PNG of a picture knows plain style sheets alone, and takes the light scheme.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

# Class -> what it colours, in the light and in the dark scheme.
INKS = {
    "ground": ("fill", "#ffffff", "#18202a"),
    "beside": ("fill", "#e2e5e9", "#394656"),  # what is not for tensors
    "soft": ("fill", "#4d5a69", "#a9b6c5"),
    "mark": ("fill", "#0969da", "#6cb6ff"),
    "grid": ("stroke", "#d8dee4", "#324050"),
    "axis": ("stroke", "#57606a", "#a9b6c5"),
    "curve": ("stroke", "#0969da", "#6cb6ff"),
}
TEXT = ("#1f2328", "#e8edf3")
_SCHEMES = ("", "@media(prefers-color-scheme:dark)")


def _style() -> str:
    rules = []
    for n, scheme in enumerate(_SCHEMES):
        ground = INKS["ground"][1 + n]
        inks = "".join(f".{name}{{{ink[0]}:{ink[1 + n]}}}" for name, ink in INKS.items())
        # Words stay readable over lines.
        text = f"text{{fill:{TEXT[n]}}}text.soft{{fill:{INKS['soft'][1 + n]}}}.halo{{stroke:{ground}}}"
        rules.append(f"{scheme}{{{text}{inks}}}" if scheme else text + inks)
    return "".join((*rules, ".halo{stroke-width:3;paint-order:stroke}.curve{fill:none;stroke-width:2}"))


def frame(width: float, height: float, title: str, description: str, parts: Iterable[str]) -> str:
    """An SVG document, whole in itself; `title` is its accessible name, `description` what it shows, in words."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-labelledby="title description" '
        'font-family="system-ui,sans-serif" font-size="12">'
    )
    about = f'<title id="title">{escape(title)}</title><desc id="description">{escape(description)}</desc>'
    ground = f'<rect class="ground" width="{width:.0f}" height="{height:.0f}"/>'
    return "\n".join([head, about, f"<style>{_style()}</style>", ground, *parts, "</svg>\n"])


def text(x: float, y: float, words: str, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{escape(words)}</text>'


def shortened(words: str, most: int) -> str:
    """The beginning and the end of what is too long."""
    half = (most - 1) // 2
    return words if len(words) <= most else f"{words[:half]}…{words[-half:]}"
