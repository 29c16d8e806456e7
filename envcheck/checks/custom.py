"""Checks that a site adds: in envcheck.toml, without code, or through the entry point of a Python package."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace

from envcheck.core import plugins
from envcheck.core.check import Check, Cost, machine_check
from envcheck.core.facts import Facts
from envcheck.core.findings import (
    LINE_LIMIT,
    ok,
    quote_answer,
    quote_values,
    report_unanswered,
    unknown,
    warn,
    warn_or_fail,
)
from envcheck.core.messages import Message, _, join, ngettext, verbatim
from envcheck.core.model import AcceptedWaiver, Answer, Finding, Outcome, diagnose, manual
from envcheck.core.safe_regex import DEADLINE_S, search_patterns
from envcheck.settings.site_config import CustomCheck, SiteSettings
from envcheck.vendors import GROUP as VENDORS_GROUP
from envcheck.vendors import REFUSED

GROUP = "envcheck.checks"  # an entry point names a Check, or a list of them
TEXT_LIMIT = 64 << 10  # maximum length that a pattern is tried on: the time of some patterns grows with its square


def load_custom_checks(settings: SiteSettings) -> tuple[Check, ...]:
    """Return the checks of the file, those of installed packages, and the check for expired waivers."""
    waivers = (_make_waiver_check(settings),) if settings.waivers else ()
    return (*waivers, *(_make_file_check(one, settings) for one in settings.checks), *_load_package_checks())


def apply_waivers(findings: Iterable[Finding], settings: SiteSettings, today: datetime.date) -> list[Finding]:
    """Return the findings; those that a current waiver covers are marked with its reason and last day."""
    holding = {w.check: AcceptedWaiver(w.reason, str(w.expires)) for w in settings.waivers if w.expires >= today}

    def judged(f: Finding) -> Finding:
        if f.name not in holding or not f.status.is_problem:
            return f
        it = holding[f.name]
        return replace(f, waived=_("until {until}: {reason}", until=it.until, reason=it.reason), accepted=it)

    return [judged(f) for f in findings]


def _make_waiver_check(settings: SiteSettings) -> Check:
    remedy = manual(_("Fix the waived problem, or set a later expiry date."))

    def judge(facts: Facts) -> Iterator[Finding]:
        today = datetime.date.today()
        expired = [w for w in settings.waivers if w.expires < today]
        over = join(", ", (_("{check} since {expires}", check=w.check, expires=w.expires) for w in expired))
        if over:
            yield warn(
                _("expired waivers: {over}", over=over),
                remedy,
                evidence=quote_values(settings.file, waivers=over),
            )
        else:
            yield ok(
                _(
                    "{waivers} in {file}",
                    waivers=ngettext("{count} waiver", "{count} waivers", len(settings.waivers)),
                    file=settings.file,
                )
            )

    judge.__doc__ = "The waivers of envcheck.toml still hold."
    rule = "WARN when one has expired"
    return machine_check(
        "own.waivers", judge, reads="envcheck.toml", source=settings.file, rule=rule, fix=str(remedy.words)
    )


def _make_file_check(own: CustomCheck, settings: SiteSettings) -> Check:
    def judge(facts: Facts) -> Iterator[Finding]:
        yield _evaluate_output(own, facts) if settings.trusted else _untrusted_file_finding(settings.file)

    judge.__doc__ = own.description
    rule = f"{own.severity.name} when {' or '.join(_describe_conditions(own))}"
    reads = shlex.join(own.question.what)
    return machine_check(
        own.name, judge, reads=reads, source=settings.file, rule=rule, fix=own.remedy, cost=Cost.SECONDS
    )


# The site's remedy is for the object of the command, not for a command that failed to run.
_UNANSWERED = {
    Outcome.HUNG: _("Run the command and measure how long it takes, then set timeout_s to at least that."),
    Outcome.ABSENT: _("Install the program, or set its full path in command."),
}


def _evaluate_output(own: CustomCheck, facts: Facts) -> Finding:
    answer = facts.answers.get(own.question.key)
    asked = shlex.join(own.question.what)
    if answer is None:
        return report_unanswered(facts, own.question.key)
    if answer.outcome in (Outcome.ABSENT, Outcome.HUNG):
        return unknown(
            _describe_missing_answer(own, answer),
            diagnose(_UNANSWERED[answer.outcome], asked),
            evidence=(f"$ {asked}",),
        )
    text = answer.text[:TEXT_LIMIT]
    found = search_patterns((own.pattern, own.unwanted), text)
    if found is None:
        return unknown(
            _("the pattern search timed out after {deadline_s:.0f} s", deadline_s=DEADLINE_S),
            manual(_("Write a simpler pattern.")),
        )
    seen, unwanted = found
    if unwanted is not None:
        line = _line_at(text, unwanted)
        return warn_or_fail(
            own.severity,
            _("{asked} printed an unwanted line: {line}", asked=asked, line=line),
            manual(verbatim(own.remedy)),
            evidence=(f"$ {asked}", line),
        )
    if own.pattern and seen is None:
        return warn_or_fail(
            own.severity,
            _("the output of {asked} does not match {pattern!r}", asked=asked, pattern=own.pattern),
            manual(verbatim(own.remedy)),
            evidence=(f"$ {asked}", *quote_answer(answer)[1:]),
        )
    return ok(
        verbatim(_line_at(text, seen))
        if seen is not None
        else _("the output does not match {unwanted!r}", unwanted=own.unwanted)
    )


def _describe_missing_answer(own: CustomCheck, answer: Answer) -> Message:
    """Mention the program's name once, though command and answer both contain it."""
    if answer.outcome is Outcome.HUNG:
        return _(
            "{what} timed out after {timeout_s:g} s (timeout_s)",
            what=own.question.what[0],
            timeout_s=own.question.timeout_s,
        )
    program, why = own.question.what[0], answer.err.strip().split("\n", 1)[0][:LINE_LIMIT]
    if why.startswith(f"{program}: "):
        return verbatim(why)
    return _("{program}: {why}", program=program, why=why or _("not found"))


def _describe_conditions(own: CustomCheck) -> Iterator[str]:
    if own.pattern:
        yield f"the output does not match {own.pattern!r}"
    if own.unwanted:
        yield f"the output matches {own.unwanted!r}"


def _line_at(text: str, at: int) -> str:
    """Return the line that contains the match."""
    start = text.rfind("\n", 0, at) + 1
    return text[start:].split("\n", 1)[0].strip()[:160]


def _untrusted_file_finding(file: str) -> Finding:
    words = _("Review the file, then pass it with --config to run its commands.")
    seen = _("skipped: {file} was found in this folder but not passed with --config", file=file)
    return unknown(seen, diagnose(words, f"envcheck doctor --config {file}"))


def _load_package_checks() -> Iterator[Check]:
    """Return the checks of installed packages; a package that cannot be loaded is a finding."""
    for point in plugins.find_entry_points(GROUP):
        try:
            offered = point.load_object()
            yield from [offered] if isinstance(offered, Check) else [c for c in offered if isinstance(c, Check)]
        except Exception as err:  # third-party code: its errors are findings
            yield _make_broken_package_check(point.name, verbatim(f"{type(err).__name__}: {err}"))
    for name, why in REFUSED.items():
        yield _make_refused_vendor_check(name, why)


def _make_broken_package_check(name: str, why: str) -> Check:
    def judge(facts: Facts) -> Iterator[Finding]:
        yield unknown(
            _("cannot load the checks of the package: {why}", why=why),
            diagnose(_("Repair or uninstall the package."), "pip list"),
        )

    judge.__doc__ = "The checks of an installed package can be loaded."
    return machine_check(f"own.{name}", judge, reads="entry points", source=f"entry point {GROUP}")


def _make_refused_vendor_check(name: str, why: str) -> Check:
    def judge(facts: Facts) -> Iterator[Finding]:
        yield unknown(
            _("vendor {name} was not loaded: {why}", name=name, why=why),
            diagnose(_("Repair or uninstall the package."), "pip list"),
        )

    judge.__doc__ = _("The vendors of installed packages can be loaded.")
    return machine_check(f"own.{name}", judge, reads="entry points", source=f"entry point {VENDORS_GROUP}")
