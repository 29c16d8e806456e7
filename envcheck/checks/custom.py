"""Checks that a site adds: from envcheck.toml, without code, or from a Python package's entry point."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace

from envcheck.core import plugins
from envcheck.core.check import Check, Cost, of_machine
from envcheck.core.facts import Facts
from envcheck.core.findings import LINE_LIMIT, figures, graded, not_told, ok, plural, quote, unknown, warn
from envcheck.core.model import Accepted, Answer, Finding, Outcome
from envcheck.core.safe_regex import DEADLINE_S, places
from envcheck.settings.site_settings import OwnCheck, Settings
from envcheck.vendors import GROUP as VENDORS_GROUP
from envcheck.vendors import REFUSED

GROUP = "envcheck.checks"  # an entry point names a Check, or a list of them
TEXT_LIMIT = 64 << 10  # a pattern is tried on no more: some need time that grows with the square of it


def checks(settings: Settings) -> tuple[Check, ...]:
    """Those of the file, then those of installed packages; and whether the file's waivers still hold."""
    waivers = (_waivers(settings),) if settings.waivers else ()
    return (*waivers, *(_of_file(one, settings) for one in settings.checks), *_of_packages())


def waived(findings: Iterable[Finding], settings: Settings, today: datetime.date) -> list[Finding]:
    """The findings; those that a waiver accepts today say so, with reason and last day."""
    holding = {w.check: Accepted(w.reason, str(w.expires)) for w in settings.waivers if w.expires >= today}

    def judged(f: Finding) -> Finding:
        if f.name not in holding or not f.status.is_problem:
            return f
        it = holding[f.name]
        return replace(f, waived=f"until {it.until}: {it.reason}", accepted=it)

    return [judged(f) for f in findings]


def _waivers(settings: Settings) -> Check:
    fix = "Mend what was waived, or decide anew and write a later day."

    def judge(facts: Facts) -> Iterator[Finding]:
        today = datetime.date.today()
        over = ", ".join(f"{w.check} since {w.expires}" for w in settings.waivers if w.expires < today)
        if over:
            yield warn(f"waivers that hold no more: {over}", fix, evidence=figures(settings.file, waivers=over))
        else:
            yield ok(f"{plural(len(settings.waivers), 'waiver')} in {settings.file}")

    judge.__doc__ = "The waivers of envcheck.toml still hold."
    rule = "WARN when one has expired"
    return of_machine("own.waivers", judge, reads="envcheck.toml", source=settings.file, rule=rule, fix=fix)


def _of_file(own: OwnCheck, settings: Settings) -> Check:
    def judge(facts: Facts) -> Iterator[Finding]:
        yield _judged(own, facts) if settings.trusted else _strange(settings.file)

    judge.__doc__ = own.says
    rule = f"{own.severity.name} when {' or '.join(_when(own))}"
    reads = shlex.join(own.question.what)
    return of_machine(own.name, judge, reads=reads, source=settings.file, rule=rule, fix=own.remedy, cost=Cost.SECONDS)


# What did not answer is no fault of what it asks about: the site's remedy is for that.
_UNANSWERED = {
    Outcome.HUNG: "Run it by hand and see how long it takes; give it as much by timeout_s.",
    Outcome.ABSENT: "Run it by hand; install the program, or give its whole path in command.",
}


def _judged(own: OwnCheck, facts: Facts) -> Finding:
    answer = facts.answers.get(own.question.key)
    asked = shlex.join(own.question.what)
    if answer is None:
        return not_told(facts, own.question.key)
    if answer.outcome in (Outcome.ABSENT, Outcome.HUNG):
        return unknown(_unanswered(own, answer), _UNANSWERED[answer.outcome], asked, evidence=(f"$ {asked}",))
    text = answer.text[:TEXT_LIMIT]
    found = places((own.pattern, own.unwanted), text)
    if found is None:
        return unknown(f"the pattern's search did not end in {DEADLINE_S:.0f} s", "Write a simpler pattern.")
    seen, unwanted = found
    if unwanted is not None:
        line = _line(text, unwanted)
        return graded(own.severity, f"{asked} says what it must not: {line}", own.remedy, evidence=(f"$ {asked}", line))
    if own.pattern and seen is None:
        return graded(
            own.severity,
            f"{asked} does not say {own.pattern!r}",
            own.remedy,
            evidence=(f"$ {asked}", *quote(answer)[1:]),
        )
    return ok(_line(text, seen) if seen is not None else f"{own.unwanted!r} is not said")


def _unanswered(own: OwnCheck, answer: Answer) -> str:
    """The program's name is said once, though command and answer both have it."""
    if answer.outcome is Outcome.HUNG:
        return f"{own.question.what[0]} did not end within its timeout_s, {own.question.timeout_s:g} s"
    program, why = own.question.what[0], answer.err.strip().split("\n", 1)[0][:LINE_LIMIT]
    return why if why.startswith(f"{program}: ") else f"{program}: {why or 'not found'}"


def _when(own: OwnCheck) -> Iterator[str]:
    if own.pattern:
        yield f"{own.pattern!r} is not said"
    if own.unwanted:
        yield f"{own.unwanted!r} is said"


def _line(text: str, at: int) -> str:
    """The line in which it was found."""
    start = text.rfind("\n", 0, at) + 1
    return text[start:].split("\n", 1)[0].strip()[:160]


def _strange(file: str) -> Finding:
    words = "Read it; when you want its commands to run, name the file."
    seen = f"not run: {file} lies in this folder, and nobody named it"
    return unknown(seen, words, f"envcheck doctor --config {file}")


def _of_packages() -> Iterator[Check]:
    """The checks of installed packages; a package whose checks or vendor cannot be loaded is a finding."""
    for point in plugins.entry_points(GROUP):
        try:
            offered = point.load()
            yield from [offered] if isinstance(offered, Check) else [c for c in offered if isinstance(c, Check)]
        except Exception as err:  # a stranger's package: its fault is a finding
            yield _broken(point.name, f"{type(err).__name__}: {err}")
    for name, why in REFUSED.items():
        yield _left_out(name, why)


def _broken(name: str, why: str) -> Check:
    def judge(facts: Facts) -> Iterator[Finding]:
        yield unknown(f"the package's checks could not be loaded: {why}", "Mend or remove the package.", "pip list")

    judge.__doc__ = "The checks of an installed package can be loaded."
    return of_machine(f"own.{name}", judge, reads="entry points", source=f"entry point {GROUP}")


def _left_out(name: str, why: str) -> Check:
    def judge(facts: Facts) -> Iterator[Finding]:
        yield unknown(f"the vendor {name} was left out: {why}", "Mend or remove the package.", "pip list")

    judge.__doc__ = "The vendors of installed packages can be loaded."
    return of_machine(f"own.{name}", judge, reads="entry points", source=f"entry point {VENDORS_GROUP}")
