"""The oldest driver that suits this machine: by the tables, the installed packages, and the job."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.compat import version_findings
from envcheck.core import versions
from envcheck.core.derived.installed_versions import toolkit_version
from envcheck.core.derived.key_value import driver_version
from envcheck.core.derived.python_packages import find_job_packages
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.messages import _

NamedVersion = tuple[str, str]  # a version and its source


def find_minimum_driver(facts: Facts, v: VendorFacts) -> NamedVersion:
    """Return the highest minimum and its source: with a lower one, a second upgrade would be needed."""
    return max(_list_minimum_drivers(facts, v), key=lambda named: versions.sort_key(named[0]) or (), default=("0", ""))


def _list_minimum_drivers(facts: Facts, v: VendorFacts) -> Iterator[NamedVersion]:
    between = v.vendor.driver_pair
    if general := version_findings.find_oldest_documented(between):
        yield general
    if between:
        component, driver = between
        packages = find_job_packages(facts)
        here = packages.packages if packages else {}
        own = toolkit_version(facts, v) if component == v.vendor.toolkit_component else here.get(component)
        least = version_findings.find_lowest_named(
            version_findings.evaluate_known_pair(component, driver, {component: own, driver: driver_version(v)})
        )
        if own and least:
            yield least, f"{version_findings.component_title(component)} {own}"
    if facts.wanted and facts.wanted.device == v.name and facts.wanted.driver_minimum:
        yield facts.wanted.driver_minimum, _("recipe {recipe}", recipe=facts.wanted.recipe)
