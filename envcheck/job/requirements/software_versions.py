"""What a job requires of the software: driver, firmware, toolkit and Python packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from packaging.utils import canonicalize_name

from envcheck.compat import version_findings
from envcheck.core import versions
from envcheck.core.check import Check, of_job
from envcheck.core.derived.installed import installed
from envcheck.core.facts import Facts, Packages
from envcheck.core.findings import fail, figures, follows, ok, skip, unknown, warn
from envcheck.core.installed_versions import firmware_version, toolkit_version
from envcheck.core.key_value import driver_version
from envcheck.core.model import Finding
from envcheck.job.requirements.demand import find_vendor, get_demand, tell_unanswered

SHOWN = 4  # packages in a sentence
UPGRADE = {
    "driver": "Install {} or newer with the vendor's installer: envcheck provision --driver FILE.run drives it.",
    "firmware": "Install {} or newer with the vendor's installer.",
    "toolkit": "Install {} or newer, or train in the recipe's image.",
}


def driver(facts: Facts) -> Iterator[Finding]:
    """The driver is at least the one that the recipe names."""
    wanted, v = get_demand(facts), find_vendor(facts)
    found = driver_version(v) if v else None
    if wanted.driver_minimum and not found and not (v and v.devices):
        yield follows("job.device")
    else:
        own = compare_version("driver", wanted.driver_minimum, found, wanted.recipe)
        yield version_findings.wants_newer(v, own) if v else own


def firmware(facts: Facts) -> Iterator[Finding]:
    """The firmware is at least the one that the recipe names."""
    wanted, v = get_demand(facts), find_vendor(facts)
    found = firmware_version(v) if v else None
    if wanted.firmware_minimum and not found and not (v and v.devices):
        yield follows("job.device")
    else:
        yield compare_version("firmware", wanted.firmware_minimum, found, wanted.recipe)


def toolkit(facts: Facts) -> Iterator[Finding]:
    """The toolkit, where the job runs on the host, is at least the one that the recipe names."""
    wanted, v = get_demand(facts), find_vendor(facts)
    if wanted.image and wanted.toolkit_minimum:
        yield skip(f"the image brings {wanted.toolkit_minimum}")
    else:
        found = toolkit_version(facts, v) if v else None
        yield compare_version("toolkit", wanted.toolkit_minimum, found, wanted.recipe)


def compare_version(what: str, minimum: str | None, found: str | None, recipe: str) -> Finding:
    """Whether the version that was found is at least the recipe's; None: no version was found, or none is named."""
    if minimum is None:
        return skip(f"the recipe names no {what}")
    if found is None:
        return unknown(f"cannot determine the version of the {what}; recipe {recipe} requires {minimum} or newer")
    reached = versions.at_least(found, minimum)
    if reached is None:
        return unknown(f"cannot compare {what} {found} with {minimum}, which recipe {recipe} requires")
    if reached:
        return ok(f"{what} {found} (>= {minimum})")
    shown = figures(f"recipe {recipe}", **{f"{what}_minimum": minimum})
    seen = f"{what} {found} is installed; recipe {recipe} requires {minimum} or newer"
    return fail(seen, UPGRADE[what].format(minimum), f"envcheck recipes show {recipe}", evidence=shown)


def packages(facts: Facts) -> Iterator[Finding]:
    """The packages that the recipe names are installed, in versions that it allows."""
    wanted, found = get_demand(facts), installed(facts)
    if not wanted.packages:
        yield skip("the recipe names no package")
    elif found is None:
        yield tell_unanswered(facts, "packages", "python")
    else:
        yield _compare_packages(facts, found)


def _compare_packages(facts: Facts, found: Packages) -> Finding:
    wanted = get_demand(facts)
    fits = {name: is_allowed(find_version(name, found.packages), spec) for name, spec in wanted.packages}
    unreadable = [name for name, fit in fits.items() if fit is None]
    wrong = [
        f"{name}{specifier} ({find_version(name, found.packages) or 'missing'})"
        for name, specifier in wanted.packages
        if fits[name] is False
    ]
    if wrong:
        seen = f"{len(wrong)} of {len(fits)} packages are missing or of another version: {', '.join(wrong[:SHOWN])}"
        words = "Let envcheck install them, or train in the image." if wanted.image else "Let envcheck install them."
        versions_found = {n: find_version(n, found.packages) or "missing" for n, _ in wanted.packages[:SHOWN]}
        shown = figures(f"packages of {found.executable or 'python3'}", **versions_found)
        grade = warn if wanted.image else fail
        command = f"envcheck provision --recipe {wanted.recipe} --method {wanted.method}"
        return grade(seen, words, command, evidence=shown)
    if unreadable:
        return unknown(f"{unreadable[0]}: the recipe's version range cannot be read")
    return ok(f"all {len(fits)} packages are installed")


def find_version(name: str, packages: Mapping[str, str]) -> str | None:
    """The installed version of a package, whose extras do not matter; `packages` are by normalised name."""
    return packages.get(canonicalize_name(name.partition("[")[0]))


def is_allowed(version: str | None, specifier: str) -> bool | None:
    """Whether the recipe takes this version, pre-releases as well; None where its specifier cannot be read."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion

    try:
        return version is not None and SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidSpecifier:
        return None
    except InvalidVersion:
        return False


CHECKS: tuple[Check, ...] = (
    of_job(
        "job.driver",
        driver,
        reads="driver version",
        rule="FAIL when it is older than the recipe's minimum; follows from driver.version below every documented one",
        fix="A newer driver.",
    ),
    of_job(
        "job.firmware",
        firmware,
        reads="firmware version",
        rule="FAIL when it is older than the recipe's minimum",
        fix="A newer firmware.",
    ),
    of_job(
        "job.toolkit",
        toolkit,
        reads="toolkit version",
        rule="FAIL when it is older than the recipe's minimum",
        fix="A newer toolkit, or the recipe's image.",
    ),
    of_job(
        "job.packages",
        packages,
        reads="installed packages",
        rule="FAIL when one is missing or of another version; WARN where the recipe has an image",
        fix="envcheck provision.",
    ),
)
