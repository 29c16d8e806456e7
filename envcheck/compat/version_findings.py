"""A verdict of the version tables as a finding: tested is ok, known bad fails, unknown is left to the cards."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from envcheck.compat import judging, loading, patterns
from envcheck.compat.components import components
from envcheck.compat.model import Confidence, Standing, Verdict
from envcheck.core import versions
from envcheck.core.facts import VendorFacts
from envcheck.core.findings import fail, ok, told_by, unknown
from envcheck.core.key_value import driver_version
from envcheck.core.model import Finding

# What to do where no table knows better: the active test decides.
DECIDES = "Let the cards compute, or choose versions that are tested together."
ACTIVE = ("envcheck doctor --deep", "envcheck solve")


def pair(left: str, right: str, known: Mapping[str, str | None]) -> Verdict | None:
    """The verdict on the two; None where one is not there, or no table knows the two kinds together."""
    return judging.pair(left, right, {name: version for name, version in known.items() if version})


def finding(v: Verdict, evidence: tuple[str, ...], *commands: str) -> Finding:
    """For a check: with the row's document and date where a row decides."""
    both = f"{title(v.left)} {v.left_version} with {title(v.right)} {v.right_version}"
    if v.standing is Standing.TESTED:
        return ok(both)
    if v.standing is Standing.BAD:
        words = f"{v.remedy[:1].upper()}{v.remedy[1:]} ({said(v)})."
        return fail(f"{both}: {v.symptom}", words, *commands, evidence=evidence)
    if v.confidence is Confidence.INFERRED:
        return unknown(f"{both}: stated nowhere, it follows from other facts", DECIDES, *ACTIVE, evidence=evidence)
    named = f"; it is named with {', '.join(v.named)}" if v.named else ""
    return unknown(f"no table names {both}{named}", DECIDES, *ACTIVE, evidence=evidence)


def find_bad(
    pairs: Iterable[tuple[str, str]], known: Mapping[str, str | None], evidence: tuple[str, ...], *commands: str
) -> Finding | None:
    """The finding of the first of the pairs that is known bad."""
    verdicts = (pair(left, right, known) for left, right in pairs)
    bad = next((verdict for verdict in verdicts if verdict and verdict.standing is Standing.BAD), None)
    return finding(bad, evidence, *commands) if bad else None


def worst(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """Known bad before unknown before tested; the first of these."""
    order = (Standing.BAD, Standing.UNKNOWN, Standing.TESTED)
    return min((v for v in verdicts if v), key=lambda v: order.index(v.standing), default=None)


@functools.cache  # of the few pairs in the vendors' records
def oldest(named: tuple[str, str] | None) -> tuple[str, str] | None:
    """The oldest version that such rows state as tested, and where."""
    found = judging.oldest(*named) if named else None
    return (found[0], loading.table().sources.get(found[1].source[0], found[1].source[0])) if found else None


def below_all(v: VendorFacts) -> bool:
    """Whether the driver is older than that of any documented set-up, which driver.version tells."""
    named, found = oldest(v.vendor.driver_pair), driver_version(v)
    return named is not None and found is not None and versions.at_least(found, named[0]) is False


def wants_newer(v: VendorFacts, own: Finding) -> Finding:
    """`own`, which a newer driver mends: it follows from driver.version where that tells of the driver."""
    return told_by("driver.version" if below_all(v) else "", own)


def least(v: Verdict | None) -> str | None:
    """The oldest that the tables name with the left one."""
    named = [text.removeprefix(">=") for text in (v.named if v else ())]
    told = [text for text in named if patterns.literal(text) and versions.key(text) is not None]
    return min(told, key=lambda text: versions.key(text) or (), default=None)


def said(v: Verdict) -> str:
    """By whom and when: the first document is enough for a line."""
    return ", ".join(filter(None, (loading.table().sources.get(v.source[0], v.source[0]) if v.source else "", v.date)))


def title(component: str) -> str:
    return components()[component].title
