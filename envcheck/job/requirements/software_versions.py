"""Software requirements of a job: driver, firmware, toolkit and Python packages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from packaging.utils import canonicalize_name

from envcheck.compat import version_findings
from envcheck.core import versions
from envcheck.core.check import Check, job_check
from envcheck.core.derived.installed_versions import firmware_version, toolkit_version
from envcheck.core.derived.key_value import driver_version
from envcheck.core.derived.python_packages import find_job_packages
from envcheck.core.facts import Facts, Packages
from envcheck.core.findings import fail, ok, quote_values, skip, skipped_because, unknown, warn
from envcheck.core.messages import _, fill, join, mark
from envcheck.core.model import Finding, Remedy, diagnose, fix
from envcheck.job.requirements.demand import find_vendor, get_demand, tell_unanswered

SHOWN = 4  # packages listed in a message
UPGRADE = {
    "driver": mark(
        "Install {version} or newer: envcheck provision --install-driver FILE.run runs the vendor's installer."
    ),
    "firmware": mark("Install {version} or newer with the vendor's installer."),
    "toolkit": mark("Install {version} or newer, or train in the recipe's image."),
}


def check_driver(facts: Facts) -> Iterator[Finding]:
    """The driver is at least the version that the recipe requires."""
    wanted, v = get_demand(facts), find_vendor(facts)
    found = driver_version(v) if v else None
    if wanted.driver_minimum and not found and not (v and v.devices):
        yield skipped_because("job.device")
    else:
        line = v.vendor.driver_line if v else ""
        own = compare_version(_("driver"), wanted.driver_minimum, found, wanted.recipe, line)
        yield version_findings.suppress_if_driver_too_old(v, own) if v else own


def check_firmware(facts: Facts) -> Iterator[Finding]:
    """The firmware is at least the version that the recipe requires."""
    wanted, v = get_demand(facts), find_vendor(facts)
    found = firmware_version(v) if v else None
    if wanted.firmware_minimum and not found and not (v and v.devices):
        yield skipped_because("job.device")
    else:
        yield compare_version(_("firmware"), wanted.firmware_minimum, found, wanted.recipe)


def check_toolkit(facts: Facts) -> Iterator[Finding]:
    """For a job on the host, the toolkit is at least the version that the recipe requires."""
    wanted, v = get_demand(facts), find_vendor(facts)
    if wanted.image and wanted.toolkit_minimum:
        yield skip(_("the image contains {toolkit_minimum}", toolkit_minimum=wanted.toolkit_minimum))
    else:
        found = toolkit_version(facts, v) if v else None
        yield compare_version(_("toolkit"), wanted.toolkit_minimum, found, wanted.recipe)


def _build_upgrade_remedy(what: str, minimum: str, recipe: str) -> Remedy:
    words = fill(UPGRADE[what], version=minimum)
    if what == "driver":
        return fix(words, f"envcheck provision --recipe {recipe} --install-driver FILE.run")
    return diagnose(words, f"envcheck recipes show {recipe}")


def compare_version(what: str, minimum: str | None, found: str | None, recipe: str, line: str = "") -> Finding:
    """Compare the installed version of `what` with the recipe's minimum; None: not found, or not required.

    `line` matches the versions that can be compared; without it, all can.
    """
    if minimum is None:
        return skip(_("the job has no {what} requirement", what=what))
    if found is None:
        return unknown(
            _(
                "cannot determine the version of the {what}; recipe {recipe} requires {minimum} or newer",
                what=what,
                recipe=recipe,
                minimum=minimum,
            )
        )
    reached = versions.is_at_least(found, minimum) if not line or re.fullmatch(line, found) else None
    if reached is None:
        return unknown(
            _(
                "cannot compare {what} {found} with {minimum}, which recipe {recipe} requires",
                what=what,
                found=found,
                minimum=minimum,
                recipe=recipe,
            )
        )
    if reached:
        return ok(_("{what} {found} (>= {minimum})", what=what, found=found, minimum=minimum))
    shown = quote_values(f"recipe {recipe}", **{f"{what}_minimum": minimum})
    seen = _(
        "{what} {found} is installed; recipe {recipe} requires {minimum} or newer",
        what=what,
        found=found,
        recipe=recipe,
        minimum=minimum,
    )
    return fail(seen, _build_upgrade_remedy(what, minimum, recipe), evidence=shown)


def check_packages(facts: Facts) -> Iterator[Finding]:
    """The packages of the recipe are installed in allowed versions."""
    wanted, found = get_demand(facts), find_job_packages(facts)
    if not wanted.packages:
        yield skip(_("the job has no package requirements"))
    elif found is None:
        yield tell_unanswered(facts, "packages", "python")
    else:
        yield _compare_packages(facts, found)


def _compare_packages(facts: Facts, found: Packages) -> Finding:
    wanted = get_demand(facts)
    fits = {name: is_allowed(find_version(name, found.packages), spec) for name, spec in wanted.packages}
    unreadable = [name for name, fit in fits.items() if fit is None]
    wrong = [
        _(
            "{requirement} ({installed})",
            requirement=f"{name}{specifier}",
            installed=find_version(name, found.packages) or _("missing"),
        )
        for name, specifier in wanted.packages
        if fits[name] is False
    ]
    if wrong:
        seen = _(
            "{wrong_count} of {fits_count} packages missing or with another version: {wrong}",
            wrong_count=len(wrong),
            fits_count=len(fits),
            wrong=join(", ", wrong[:SHOWN]),
        )
        words = (
            _("Install the packages with envcheck, or train in the image.")
            if wanted.image
            else _("Install the packages with envcheck.")
        )
        versions_found = {n: find_version(n, found.packages) or "missing" for n, _unused in wanted.packages[:SHOWN]}
        shown = quote_values(f"packages of {found.executable or 'python3'}", **versions_found)
        grade = warn if wanted.image else fail
        command = f"envcheck provision --recipe {wanted.recipe} --method {wanted.method}"
        return grade(seen, fix(words, command), evidence=shown)
    if unreadable:
        return unknown(_("{unreadable}: the recipe's version range cannot be read", unreadable=unreadable[0]))
    return ok(_("all {fits_count} packages are installed", fits_count=len(fits)))


def find_version(name: str, packages: Mapping[str, str]) -> str | None:
    """Return the installed version of a package, ignoring its extras; `packages` has normalised names."""
    return packages.get(canonicalize_name(name.partition("[")[0]))


def is_allowed(version: str | None, specifier: str) -> bool | None:
    """Whether the specifier allows this version, pre-releases included; None for an invalid specifier."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion

    try:
        return version is not None and SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidSpecifier:
        return None
    except InvalidVersion:
        return False


CHECKS: tuple[Check, ...] = (
    job_check(
        "job.driver",
        check_driver,
        reads="driver version",
        rule="FAIL if older; blocked by driver.version if older than any documented set-up",
        fix="Install a newer driver.",
    ),
    job_check(
        "job.firmware",
        check_firmware,
        reads="firmware version",
        rule="FAIL if older",
        fix="Install a newer firmware.",
    ),
    job_check(
        "job.toolkit",
        check_toolkit,
        reads="toolkit version",
        rule="FAIL if older",
        fix="Install a newer toolkit, or use the image of the recipe.",
    ),
    job_check(
        "job.packages",
        check_packages,
        reads="installed packages",
        rule="FAIL if one is missing or has another version; WARN if the recipe has an image",
        fix="Run envcheck provision.",
    ),
)
