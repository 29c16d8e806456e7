"""Convert a picture to PNG, with the optional libraries of the extra `png` in setup.cfg."""

from __future__ import annotations

from envcheck.core.errors import UsageError
from envcheck.core.messages import _

ZOOM = 2  # twice the size of the SVG, to keep small text readable


def convert_svg(svg: str) -> bytes:
    """Return the picture as PNG, with a bundled font, since a container may have none; UsageError without libraries."""
    try:
        import font_roboto
        import resvg_py
    except ImportError as err:
        raise UsageError(
            _("writing a .png file needs {name}, which is not installed", name=err.name),
            _("run `pip install resvg-py font-roboto`, or use a file name that ends in .svg"),
        ) from err
    drawn: bytes = resvg_py.svg_to_bytes(
        svg_string=svg,
        font_files=[font_roboto.Roboto, font_roboto.RobotoBold],
        sans_serif_family="Roboto",
        skip_system_fonts=True,
        zoom=ZOOM,
    )
    return drawn
