"""The oldest driver that would do here: by the tables for any set-up, for what is installed, and for the job."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.compat import version_findings
from envcheck.core import versions
from envcheck.core.derived.installed import installed
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.installed_versions import toolkit_version
from envcheck.core.key_value import driver_version

Named = tuple[str, str]  # a version, and who names it


def driver(facts: Facts, v: VendorFacts) -> Named:
    """The highest of all that are named: an upgrade to a lower one would not be the last."""
    return max(_named(facts, v), key=lambda named: versions.key(named[0]) or (), default=("0", ""))


def _named(facts: Facts, v: VendorFacts) -> Iterator[Named]:
    between = v.vendor.driver_pair
    if general := version_findings.oldest(between):
        yield general
    if between:
        component, driver = between
        packages = installed(facts)
        here = packages.packages if packages else {}
        own = toolkit_version(facts, v) if component == v.vendor.toolkit_component else here.get(component)
        least = version_findings.least(
            version_findings.pair(component, driver, {component: own, driver: driver_version(v)})
        )
        if own and least:
            yield least, f"{version_findings.title(component)} {own}"
    if facts.wanted and facts.wanted.device == v.name and facts.wanted.driver_minimum:
        yield facts.wanted.driver_minimum, f"recipe {facts.wanted.recipe}"
