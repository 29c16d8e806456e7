"""Verdicts of the version tables as findings: tested is OK, known bad is FAIL, unknown needs a hardware test."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from envcheck.compat import pair_verdicts, table_loader, version_patterns
from envcheck.compat.components import load_components
from envcheck.compat.version_records import Confidence, PairStatus, PairVerdict
from envcheck.core import versions
from envcheck.core.derived.key_value import driver_version
from envcheck.core.facts import VendorFacts
from envcheck.core.findings import fail, ok, suppressed_by, unknown
from envcheck.core.messages import Message, _, fill, join
from envcheck.core.model import Finding, diagnose

# The next step for pairs that no table lists: the hardware test decides.
ACTIVE_TEST_ADVICE = _("Test the cards, or choose versions that are tested together.")
ACTIVE_TEST_COMMANDS = ("envcheck doctor --deep", "envcheck solve")


def evaluate_known_pair(left: str, right: str, known: Mapping[str, str | None]) -> PairVerdict | None:
    """Return the verdict on two components; None if one is not installed, or no table lists the pair."""
    return pair_verdicts.evaluate_pair(left, right, {name: version for name, version in known.items() if version})


def make_version_finding(v: PairVerdict, evidence: tuple[str, ...], *commands: str) -> Finding:
    """Return the finding of a check, with the source and date of the deciding row."""
    both = _(
        "{left} {left_version} with {right} {right_version}",
        left=component_title(v.left),
        left_version=v.left_version,
        right=component_title(v.right),
        right_version=v.right_version,
    )
    if v.standing is PairStatus.TESTED:
        return ok(both)
    if v.standing is PairStatus.BAD:
        words = _("{remedy} ({source}).", remedy=table_sentence(v.remedy), source=format_source(v))
        return fail(
            _("{both}: {symptom}", both=both, symptom=table_text(v.symptom)),
            diagnose(words, *commands),
            evidence=evidence,
        )
    if v.confidence is Confidence.INFERRED:
        return unknown(
            _("{both}: not documented, inferred from other facts", both=both),
            diagnose(ACTIVE_TEST_ADVICE, *ACTIVE_TEST_COMMANDS),
            evidence=evidence,
        )
    seen = _("no table lists {both}", both=both)
    if v.named:
        seen = _("no table lists {both}; documented: {named}", both=both, named=join(", ", v.named))
    return unknown(
        seen,
        diagnose(ACTIVE_TEST_ADVICE, *ACTIVE_TEST_COMMANDS),
        evidence=evidence,
    )


def find_bad(
    pairs: Iterable[tuple[str, str]], known: Mapping[str, str | None], evidence: tuple[str, ...], *commands: str
) -> Finding | None:
    """Return the finding of the first pair that is known bad, or None."""
    verdicts = (evaluate_known_pair(left, right, known) for left, right in pairs)
    bad = next((verdict for verdict in verdicts if verdict and verdict.standing is PairStatus.BAD), None)
    return make_version_finding(bad, evidence, *commands) if bad else None


def find_worst_verdict(verdicts: Iterable[PairVerdict | None]) -> PairVerdict | None:
    """Return the first verdict with the worst status: known bad before unknown before tested."""
    order = (PairStatus.BAD, PairStatus.UNKNOWN, PairStatus.TESTED)
    return min((v for v in verdicts if v), key=lambda v: order.index(v.standing), default=None)


@functools.cache  # called for a few pairs in the vendors' records
def find_oldest_documented(named: tuple[str, str] | None) -> tuple[str, str] | None:
    """Return the oldest version that the rows of this pair list as tested, and its source."""
    found = pair_verdicts.find_oldest_tested(*named) if named else None
    return (
        (found[0], table_loader.own_version_table().sources.get(found[1].source[0], found[1].source[0]))
        if found
        else None
    )


def is_driver_below_all(v: VendorFacts) -> bool:
    """Return whether the driver is older than in any documented set, which driver.version reports."""
    named, found = find_oldest_documented(v.vendor.driver_pair), driver_version(v)
    return named is not None and found is not None and versions.is_at_least(found, named[0]) is False


def suppress_if_driver_too_old(v: VendorFacts, own: Finding) -> Finding:
    """Return `own`, suppressed by driver.version if that reports a driver that is too old."""
    return suppressed_by("driver.version" if is_driver_below_all(v) else "", own)


def find_lowest_named(v: PairVerdict | None) -> str | None:
    """Return the oldest version that the tables list for the left component."""
    named = [text.removeprefix(">=") for text in (v.named if v else ())]
    versions_named = [
        text for text in named if version_patterns.is_single_version(text) and versions.sort_key(text) is not None
    ]
    return min(versions_named, key=lambda text: versions.sort_key(text) or (), default=None)


def table_text(text: str) -> Message:
    """Return a text of the tables as a message; texts derived from the host are messages already."""
    return text if isinstance(text, Message) else fill(text)


def table_sentence(remedy: str) -> Message:
    """Return a remedy of the tables, which is in lower case, with a capital first letter."""
    return fill(f"{remedy[:1].upper()}{remedy[1:]}")


def format_source(v: PairVerdict) -> Message:
    """Return the first source and the date of the deciding row."""
    titles = table_loader.own_version_table().sources
    return join(", ", filter(None, (*(fill(titles.get(name, name)) for name in v.source[:1]), v.date)))


def component_title(component: str) -> Message:
    """Return the component's display name."""
    return fill(load_components()[component].title)
