"""Image requirements of a job: a pinned reference, and a driver that is recent enough for the contents."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.compat import image_versions, version_findings
from envcheck.core import versions
from envcheck.core.check import Check, job_check
from envcheck.core.derived.image_names import extract_image_tag
from envcheck.core.derived.key_value import driver_version
from envcheck.core.facts import Facts
from envcheck.core.findings import ok, quote_values, skip, skipped_because, unknown, warn
from envcheck.core.messages import _
from envcheck.core.model import Finding, fix
from envcheck.job.requirements.demand import find_vendor, get_demand

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


def check_image_versions(facts: Facts) -> Iterator[Finding]:
    """The driver is recent enough for the versions in the image of the job."""
    wanted, v = get_demand(facts), find_vendor(facts)
    contents = image_versions.find_image_versions(wanted.image) if wanted.image else None
    driver = driver_version(v) if v else None
    if wanted.image is None:
        yield skip(_("the job has no image"))
    elif contents is None:
        yield skip(_("no table lists the versions in image {image}", image=wanted.image))
    elif v is None or not (driver or v.devices):
        yield skipped_because("job.device")
    elif driver is None:
        yield unknown(_("cannot determine the version of the {what}", what=_("driver")))
    elif wanted.driver_minimum and versions.is_at_least(driver, wanted.driver_minimum) is False:
        yield skipped_because("job.driver")  # the newer driver that the recipe requires decides
    else:
        upgrade = f"envcheck provision --recipe {wanted.recipe} --install-driver FILE.run"
        own = image_versions.judge_driver(contents, v, driver, upgrade)
        yield version_findings.suppress_if_driver_too_old(v, own)


CHECKS: tuple[Check, ...] = (
    job_check(
        "job.image_pinned",
        check_pinned_image,
        reads="the recipe",
        source="Paddle guide for Iluvatar; ERNIE guide for NPU",
        rule="WARN if the tag is missing or mutable (latest, nightly ...)",
        fix="Pin it by digest, or use envcheck.lock.",
    ),
    job_check(
        "job.image_versions",
        check_image_versions,
        reads="the recipe, driver version, version tables",
        rule="FAIL if the driver is known to fail with the toolkit of the image; WARN if older than documented",
        fix="Install a newer driver, or use an image for the installed one.",
    ),
)
