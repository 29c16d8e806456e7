"""Image requirements of a job: the reference must be pinned."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, job_check
from envcheck.core.derived.image_names import extract_image_tag
from envcheck.core.facts import Facts
from envcheck.core.findings import ok, quote_values, skip, unknown, warn
from envcheck.core.messages import _
from envcheck.core.model import Finding, fix

FLOATING = ("latest", "nightly", "main", "master", "dev", "stable")


def check_pinned_image(facts: Facts) -> Iterator[Finding]:
    """The image of the job is pinned by digest or by the tag of one version."""
    image = facts.wanted.image if facts.wanted else None
    if image is None:
        yield skip(_("the job has no image"))
        return
    tag = extract_image_tag(image)
    if not re.fullmatch(r"[\w./:@-]+", image):
        yield unknown(_("{image!r:.80} is not an image name", image=image))
        return
    if "@sha256:" in image:
        yield ok(_("pinned by digest"))
    elif not tag or tag in FLOATING or tag.startswith("latest"):
        words = _("Pin the image by digest, or write a lock file: the tag may point to another image later.")
        shown = quote_values("the recipe", image=image)
        yield warn(
            _("image {image} uses a mutable tag", image=image),
            fix(words, "envcheck provision --lock envcheck.lock"),
            evidence=shown,
        )
    else:
        yield ok(_("tag {tag}; provision pins the digest", tag=tag))


CHECKS: tuple[Check, ...] = (
    job_check(
        "job.image_pinned",
        check_pinned_image,
        reads="the recipe",
        source="Paddle guide for Iluvatar; ERNIE guide for NPU",
        rule="WARN if the tag is missing or mutable (latest, nightly ...)",
        fix="Pin it by digest, or use envcheck.lock.",
    ),
)
