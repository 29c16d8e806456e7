"""Images that are built for one generation of chips."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, of_job
from envcheck.core.derived.images import image_tag
from envcheck.core.facts import Facts
from envcheck.core.findings import fail, figures, follows, ok, skip, unknown
from envcheck.core.model import Finding
from envcheck.vendors.ascend import VENDOR

# What tags call a generation, and what npu-smi calls its chips: images and wheels are built for one (ms-swift#9245).
GENERATIONS = (
    (re.compile(r"(?<![a-z0-9])(910b|a2)(?![a-z0-9])"), re.compile(r"910B", re.IGNORECASE), "910B (A2)"),
    (re.compile(r"(?<![a-z0-9])(910c|910_93|a3)(?![a-z0-9])"), re.compile(r"910C|910_93|Ascend910$"), "910C (A3)"),
    (re.compile(r"(?<![a-z0-9])310p\d?(?![a-z0-9])"), re.compile(r"310P", re.IGNORECASE), "310P"),
)


def chips(facts: Facts) -> Iterator[Finding]:
    """The job's image is built for the generation of these chips."""
    image = facts.wanted.image if facts.wanted else None
    mine = next((v for v in facts.vendors if v.name == VENDOR.name), None)
    said = [(chip, name) for words, chip, name in GENERATIONS if image and words.search(image_tag(image).lower())]
    names = sorted({d.name or "" for d in mine.devices}) if mine else []
    if image is None or mine is None:
        yield skip("the job names no image, or none for NPUs")
    elif not mine.devices:
        yield follows("job.device")
    elif not said:
        yield skip("the image's tag names no generation of chips")
    elif not all(names):
        yield unknown("the tool does not name the chips")
    elif any(chip.search(name) for chip, _ in said for name in names):
        yield ok(f"built for {said[0][1]}")
    else:
        words = "Choose the image for these chips: packages of another generation refuse to start."
        shown = figures("the recipe", image=image)
        yield fail(
            f"the image is for {said[0][1]}, the chips are {', '.join(names)}",
            words,
            "envcheck recipes",
            evidence=shown,
        )


CHECKS: tuple[Check, ...] = (
    of_job(
        "job.image_chips",
        chips,
        reads="the recipe, npu-smi info",
        source="ms-swift#9245",
        rule="FAIL when the tag names another generation than the chips",
        fix="The image for the chips.",
    ),
)
