"""A picture as PNG, by libraries that plan does without otherwise: the extra `png` of setup.cfg."""

from __future__ import annotations

from envcheck.core.errors import UsageError

ZOOM = 2  # twice the SVG's size, so that its small print is read


def of_svg(svg: str) -> bytes:
    """The same picture; the font comes along, since a container may have none."""
    try:
        import font_roboto
        import resvg_py
    except ImportError as err:
        raise UsageError(
            f"a .png needs {err.name}, which is not installed",
            "pip install resvg-py font-roboto, or name a file that ends in .svg",
        ) from err
    drawn: bytes = resvg_py.svg_to_bytes(
        svg_string=svg,
        font_files=[font_roboto.Roboto, font_roboto.RobotoBold],
        sans_serif_family="Roboto",
        skip_system_fonts=True,
        zoom=ZOOM,
    )
    return drawn
