"""The image that a recipe names: one that stays what it is, and that is built for these chips."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, of_job
from envcheck.core.derived.images import image_tag
from envcheck.core.facts import Facts
from envcheck.core.findings import figures, ok, skip, unknown, warn
from envcheck.core.model import Finding

FLOATING = ("latest", "nightly", "main", "master", "dev", "stable")


def pinned(facts: Facts) -> Iterator[Finding]:
    """The job's image is named so that it is the same next week: by digest, or by a tag of one version."""
    image = facts.wanted.image if facts.wanted else None
    if image is None:
        yield skip("the job names no image")
        return
    tag = image_tag(image)
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


CHECKS: tuple[Check, ...] = (
    of_job(
        "job.image_pinned",
        pinned,
        reads="the recipe",
        source="Paddle's Iluvatar page; ERNIE's NPU page",
        rule="WARN when the tag is missing or moves (latest, nightly ...)",
        fix="A digest, or envcheck.lock.",
    ),
)
