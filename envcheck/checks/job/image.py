"""The image that a recipe names: one that stays what it is, and that is built for these chips."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import NPU, Check, of_job
from envcheck.core.facts import Facts
from envcheck.core.findings import fail, figures, follows, ok, skip, unknown, warn
from envcheck.core.model import Finding

FLOATING = ("latest", "nightly", "main", "master", "dev", "stable")
# What tags call a generation, and what npu-smi calls its chips: images and wheels are built for one (ms-swift#9245).
GENERATIONS = (
    (re.compile(r"(?<![a-z0-9])(910b|a2)(?![a-z0-9])"), re.compile(r"910B", re.IGNORECASE), "910B (A2)"),
    (re.compile(r"(?<![a-z0-9])(910c|910_93|a3)(?![a-z0-9])"), re.compile(r"910C|910_93|Ascend910$"), "910C (A3)"),
    (re.compile(r"(?<![a-z0-9])310p\d?(?![a-z0-9])"), re.compile(r"310P", re.IGNORECASE), "310P"),
)


def pinned(facts: Facts) -> Iterator[Finding]:
    """The job's image is named so that it is the same next week: by digest, or by a tag of one version."""
    image = facts.wanted.image if facts.wanted else None
    if image is None:
        yield skip("the job names no image")
        return
    tag = _tag(image)
    if not re.fullmatch(r"[\w./:@-]+", image):
        yield unknown(f"{image!r:.80} is no image's name")
        return
    if "@sha256:" in image:
        yield ok("named by its digest")
    elif not tag or tag in FLOATING or tag.startswith("latest"):
        words = "Name it by digest, or lock it: what is pulled tomorrow is another image under this name."
        shown = figures("the recipe", image=image)
        yield warn(f"{image} is a name that moves", words, "envcheck provision --lock envcheck.lock", evidence=shown)
    else:
        yield ok(f"tag {tag}; provision pins the digest")


def chips(facts: Facts) -> Iterator[Finding]:
    """The job's image is built for the generation of these chips."""
    image = facts.wanted.image if facts.wanted else None
    mine = next((v for v in facts.vendors if v.name in NPU), None)
    said = [(chip, name) for words, chip, name in GENERATIONS if image and words.search(_tag(image).lower())]
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


def _tag(image: str) -> str:
    """registry:5000/name:tag@sha256:… → tag."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


CHECKS: tuple[Check, ...] = (
    of_job(
        "job.image_pinned",
        pinned,
        reads="the recipe",
        source="Paddle's Iluvatar page; ERNIE's NPU page",
        rule="WARN when the tag is missing or moves (latest, nightly ...)",
        fix="A digest, or envcheck.lock.",
    ),
    of_job(
        "job.image_chips",
        chips,
        reads="the recipe, npu-smi info",
        source="ms-swift#9245",
        rule="FAIL when the tag names another generation than the chips",
        fix="The image for the chips.",
    ),
)
