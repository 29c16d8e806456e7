"""Pictures of a plan, a search, a sweep and a loss are readable in both colour schemes and have descriptions."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from envcheck.cli import main
from launch.logs.training_step import TrainingStep
from launch.planner.output import svg
from launch.run import loss_plot

PLAN = ("plan", "--model", "21b", "--method", "lora", "--device", "npu", "--cards", "8")
NAME = "{http://www.w3.org/2000/svg}"


def draw_picture(tmp_path: Path, *options: str) -> str:
    picture = tmp_path / "picture.svg"
    if options == ("loss",):
        return loss_plot.render_svg([TrainingStep(4 - 0.03 * n) for n in range(90)], "the loss of <tiny>")
    done = CliRunner().invoke(main.main, [*PLAN, *options, "-o", str(picture)], standalone_mode=False)
    assert done.exit_code == 0, done.output
    return picture.read_text()


@pytest.mark.parametrize("options", [(), ("--search",), ("--sweep", "seq_len=1024,2048"), ("loss",)])
def test_a_picture_has_a_name_and_two_schemes(options: tuple[str, ...], tmp_path: Path) -> None:
    """Each has a role, a title, a description and a dark scheme, and no colour for one scheme only."""
    text = draw_picture(tmp_path, *options)
    root = ElementTree.fromstring(text)
    labels = [root.findtext(f"{NAME}{tag}") for tag in ("title", "desc")]

    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "title description")
    assert all(labels) and len(labels[1] or "") > 20
    assert "@media(prefers-color-scheme:dark)" in text
    assert not re.search(r'(fill|stroke)="(#fff|#333|#ddd|white|black)"', text)


def compute_contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours #rrggbb (WCAG 2.2, 1.4.3)."""

    def luminance(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_words_are_readable(scheme: int) -> None:
    """In both schemes text has a contrast of at least 4.5 to 1, lines of 3 to 1."""
    ground = svg.COLOUR_CLASSES["ground"][1 + scheme]

    assert compute_contrast(svg.TEXT[scheme], ground) >= 4.5
    assert compute_contrast(svg.COLOUR_CLASSES["soft"][1 + scheme], ground) >= 4.5
    assert all(
        compute_contrast(svg.COLOUR_CLASSES[name][1 + scheme], ground) >= 3 for name in ("axis", "curve", "mark")
    )
