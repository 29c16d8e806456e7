"""What a published image contains, from the version tables, and whether the host's driver is recent enough for it."""

from __future__ import annotations

from envcheck.compat import pair_verdicts, table_loader, version_findings
from envcheck.compat.version_records import ImageVersions, PairStatus
from envcheck.core import versions
from envcheck.core.facts import VendorFacts
from envcheck.core.findings import ok, quote_values, skip, unknown, warn
from envcheck.core.messages import Message, _, fill, join
from envcheck.core.model import Finding, Remedy, diagnose, fix


def find_image_versions(image: str) -> ImageVersions | None:
    """Return the documented contents of REGISTRY/NAME:TAG, with or without a digest; None if no table lists it."""
    name = image.partition("@")[0]
    return next((each for each in table_loader.own_version_table().images if name in each.references), None)


def describe_contents(image: ImageVersions) -> Message:
    """Return the versions in the image, with source and date: CANN 8.0.RC1, Python 3.10 (Paddle's pages, 2024-12)."""
    held = list_versions(image)
    return _("{versions} ({source}, {date})", versions=held, source=_cite_source(image), date=image.date)


def list_versions(image: ImageVersions) -> Message:
    """Return the versions in the image: CANN 8.0.RC1, Python 3.10."""
    return join(
        ", ",
        [
            _("{name} {value}", name=version_findings.component_title(name), value=version)
            for name, version in image.holds.items()
        ],
    )


def judge_driver(image: ImageVersions, v: VendorFacts, driver: str, upgrade: str) -> Finding:
    """Return the finding for the driver on the host; `upgrade` is the command that installs a newer one.

    FAIL if a table lists the driver as failing with the image's toolkit, WARN if it is older than the driver that the
    image was published for or the oldest documented one: nobody has shown that it works.
    """
    if versions.sort_key(driver) is None:
        return unknown(_("cannot read the driver's version {driver!r}", driver=driver))
    component = v.vendor.driver_pair[1] if v.vendor.driver_pair else ""
    evidence = quote_values(image.references[0], **{name.replace("-", "_"): held for name, held in image.holds.items()})
    pairs = [
        pair_verdicts.evaluate_pair(name, component, {name: held, component: driver})
        for name, held in image.holds.items()
        if name != component
    ]
    worst = version_findings.find_worst_verdict(pairs)
    if worst and (
        worst.standing is PairStatus.BAD or (worst.standing is PairStatus.TESTED and component not in image.holds)
    ):
        return version_findings.make_version_finding(worst, evidence, upgrade)
    floor = image.holds.get(component) or version_findings.find_lowest_named(worst)
    if floor is None:
        return skip(_("no driver is documented for this image"))
    if versions.is_at_least(driver, floor):
        return ok(_("driver {driver}; the image is documented with {floor}", driver=driver, floor=floor))
    return warn(
        _("the image is documented with driver {floor}; {driver} is installed", floor=floor, driver=driver),
        _advise_upgrade(image, floor, upgrade),
        evidence=evidence,
    )


def _advise_upgrade(image: ImageVersions, floor: str, upgrade: str) -> Remedy:
    words = _(
        "Install driver {floor} or newer, or pin an image made for the installed one ({source}).",
        floor=floor,
        source=_cite_source(image),
    )
    return fix(words, upgrade) if upgrade else diagnose(words, "envcheck solve")


def _cite_source(image: ImageVersions) -> Message:
    titles = table_loader.own_version_table().sources
    return fill(titles.get(image.source[0], image.source[0]))
