"""Accelerators that no check evaluated: a machine with them is never ready."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from envcheck.core.facts import Facts
from envcheck.core.findings import unknown
from envcheck.core.messages import _, join
from envcheck.core.model import Finding, Status, diagnose
from probes.host import network_schemas

NAME = "devices.present"  # the check whose place the finding takes
SHOWN = 4
SILENT = (Status.NOT_APPLICABLE, Status.BLOCKED)


def add_unevaluated_devices(facts: Facts, found: list[Finding]) -> list[Finding]:
    """Return the findings, and one more for each kind of device that none of them evaluates."""
    added = [
        replace(finding, name=NAME)
        for finding in (*_find_unevaluated_vendors(facts, found), *_find_unknown_vendors(facts))
    ]
    places = {finding.device for finding in added}
    kept = [f for f in found if f.name != NAME or f.device not in places] if added else found
    return [*kept, *added]


def _find_unevaluated_vendors(facts: Facts, found: Iterable[Finding]) -> Iterator[Finding]:
    """Vendors with devices whose checks were all left out."""
    judged = {finding.device for finding in found if finding.status not in SILENT}
    for v in facts.vendors:
        if v.name not in judged:
            words = _("Include the areas that check devices: driver, devices.")
            seen = _("no check evaluated the {title} devices", title=v.vendor.title)
            yield replace(unknown(seen, diagnose(words, "envcheck doctor")), device=v.name)


def _find_unknown_vendors(facts: Facts) -> Iterator[Finding]:
    """Accelerators of unknown vendors.

    They do not matter if other devices are used for training, or if the CPU was selected.
    """
    strange = network_schemas.read_unknown_accelerators(facts) if facts.device == "auto" and not facts.vendors else {}
    if strange:
        listed = join(
            ", ", (_("{place} ({ids})", place=place, ids=ids) for place, ids in list(strange.items())[:SHOWN])
        )
        words = _("Install the package that adds this vendor to envcheck, or select the CPU.")
        seen = _("accelerators of an unknown vendor: {listed}", listed=listed)
        yield unknown(seen, diagnose(words, "envcheck doctor --device cpu"))
