"""Checks of images that are built for one chip generation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, job_check
from envcheck.core.derived.image_names import extract_image_tag
from envcheck.core.facts import Facts
from envcheck.core.findings import fail, ok, quote_values, skip, skipped_because, unknown
from envcheck.core.messages import _, join
from envcheck.core.model import Finding, diagnose
from envcheck.vendors.ascend import VENDOR

# A generation's names in image tags and in npu-smi: images and wheels are built for one of them (ms-swift#9245).
GENERATIONS = (
    (re.compile(r"(?<![a-z0-9])(910b|a2)(?![a-z0-9])"), re.compile(r"910B", re.IGNORECASE), "910B (A2)"),
    (re.compile(r"(?<![a-z0-9])(910c|910_93|a3)(?![a-z0-9])"), re.compile(r"910C|910_93|Ascend910$"), "910C (A3)"),
    (re.compile(r"(?<![a-z0-9])310p\d?(?![a-z0-9])"), re.compile(r"310P", re.IGNORECASE), "310P"),
)


def check_image_chips(facts: Facts) -> Iterator[Finding]:
    """The image of the job is built for this chip generation."""
    image = facts.wanted.image if facts.wanted else None
    mine = next((v for v in facts.vendors if v.name == VENDOR.name), None)
    built_for = [
        (chip, name) for words, chip, name in GENERATIONS if image and words.search(extract_image_tag(image).lower())
    ]
    names = sorted({d.name or "" for d in mine.devices}) if mine else []
    if image is None or mine is None:
        yield skip(_("the job has no image, or none for NPUs"))
    elif not mine.devices:
        yield skipped_because("job.device")
    elif not built_for:
        yield skip(_("the image tag does not name a chip generation"))
    elif not all(names):
        yield unknown(_("the vendor tool does not report the chip names"))
    elif any(chip.search(name) for chip, _unused in built_for for name in names):
        yield ok(_("built for {generation}", generation=built_for[0][1]))
    else:
        words = _("Choose the image for these chips: packages for another generation do not start.")
        shown = quote_values("the recipe", image=image)
        yield fail(
            _(
                "the image is built for {generation}, but the chips are {names}",
                generation=built_for[0][1],
                names=join(", ", names),
            ),
            diagnose(words, "envcheck recipes"),
            evidence=shown,
        )


CHECKS: tuple[Check, ...] = (
    job_check(
        "job.image_chips",
        check_image_chips,
        reads="the recipe, npu-smi info",
        source="ms-swift#9245",
        rule="FAIL if the tag names another generation",
        fix="Use the image for this chip.",
    ),
)
