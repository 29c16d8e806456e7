"""`envcheck slurm prolog`: check whether this node is healthy. slurmd runs it as root, before each job (Prolog) or
periodically (HealthCheckProgram).

Slurm drains a node whose Prolog exits with a code other than 0, so only a fault of the node may do that: an unknown
result or a bug in envcheck exits with 0 and prints a line.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import click

from envcheck.core import errors
from envcheck.core.language import translate
from envcheck.core.messages import Message, _, verbatim
from envcheck.core.model import Finding, Status
from launch.backends.slurm.node_faults import CHECKED_AREAS, IN_USE_CHECKS, JOB_CHECKS

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # slurmd runs HealthCheckProgram without PATH


class PrologTimeoutError(BaseException):
    """The time limit is reached. Not an Exception, so that no check catches it as its own failure."""


@dataclass(frozen=True)
class PrologTerms:
    """`alone`: jobs get whole nodes; `limit_s`: limit for all checks; `untold`: an unknown result fails the node."""

    device: str = "auto"
    config: str | None = None
    skip: tuple[str, ...] = ()
    alone: bool = False
    drain: bool = False
    limit_s: float = 6.0
    untold: bool = False


@dataclass(frozen=True)
class NodeHealth:
    """`verdict` is healthy, unhealthy or unknown; `reason` is one line, "" for healthy."""

    node: str
    verdict: str
    reason: str
    exit_code: int


def check_node_health(terms: PrologTerms) -> NodeHealth:
    """Check the node; print one line on standard error unless it is healthy. UsageError for wrong terms."""
    check_terms(terms)
    os.environ.setdefault("PATH", PATH)
    try:
        with _limit_time(terms.limit_s):
            found = _collect_findings(terms)
    except PrologTimeoutError:
        return _report_unknown(terms, _("no result within {limit_s:g} s", limit_s=terms.limit_s))
    except errors.EnvcheckError as err:
        return _report_unknown(terms, err.message)
    except Exception as err:  # a bug in envcheck must not drain nodes
        return _report_unknown(terms, _("internal error in envcheck: {error}", error=f"{type(err).__name__}: {err}"))
    bad = {Status.FAIL: True, Status.WARN: terms.alone}  # with --alone, a device in use is a failure
    wrong = [
        f for f in found if not f.waived and bad.get(f.status) and (f.status > Status.WARN or f.name in IN_USE_CHECKS)
    ]
    if wrong:
        return _report_unfit_node(terms, wrong)
    unknown = [f for f in found if f.status is Status.UNKNOWN and not f.waived]
    return (
        _report_unknown(terms, _summarize_findings(unknown))
        if unknown
        else NodeHealth(node_name(), "healthy", "", errors.SUCCESS)
    )


def check_terms(terms: PrologTerms) -> None:
    """Raise EnvcheckError for settings that cannot be read and for names of checks that do not exist."""
    from envcheck import checks, settings
    from envcheck.checks import custom

    site = settings.load_settings(terms.config) if terms.config else None
    checks.resolve_check_names(terms.skip, custom.load_custom_checks(site) if site else ())


def node_name() -> str:
    """Return the name of this node in Slurm."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


def _collect_findings(terms: PrologTerms) -> list[Finding]:
    """Run the checks of doctor that do not depend on a job."""
    import datetime
    from dataclasses import replace

    from envcheck import checks, settings
    from envcheck.checks import custom
    from envcheck.collect import answer_sources, facts

    site = settings.load_settings(terms.config) if terms.config else None
    more = custom.load_custom_checks(site) if site else ()
    gathered = facts.gather_facts(answer_sources.local_machine(), terms.device, more=site.questions if site else ())
    if site:
        gathered = replace(gathered, thresholds=site.thresholds)
    areas = {check.name.partition(".")[0] for check in (*checks.CHECKS, *more)}
    without = (*JOB_CHECKS, *(() if terms.alone else IN_USE_CHECKS), *terms.skip)
    found = checks.run_checks(gathered, [area for area in CHECKED_AREAS if area in areas], without, more)
    return list(custom.apply_waivers(found, site, datetime.date.today()) if site else found)


@contextmanager
def _limit_time(limit_s: float) -> Iterator[None]:
    """Raise PrologTimeoutError in the body after `limit_s` seconds."""

    def expire(number: int, frame: object) -> None:
        raise PrologTimeoutError

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _summarize_findings(found: Sequence[Finding]) -> Message:
    """Return one line, the root cause first: 'devices.count: lspci 8, npu-smi 7 (and 2 more)'."""
    from envcheck.report.summary import ROOTS

    first = min(found, key=lambda f: f.name not in ROOTS)
    line = "".join(c if c.isprintable() else "?" for c in f"{first.name}: {first.seen}")[:200]
    if len(found) == 1:
        return verbatim(line)
    return _("{first} (and {count} more)", first=line, count=len(found) - 1)


def _report_unfit_node(terms: PrologTerms, wrong: Sequence[Finding]) -> NodeHealth:
    reason = _summarize_findings(wrong)
    _print_line(_("envcheck: node {node} is not healthy: {reason}", node=node_name(), reason=reason))
    _drain_node(terms, reason)
    return NodeHealth(node_name(), "unhealthy", reason, errors.CHECK_FAILED)


def _report_unknown(terms: PrologTerms, why: str) -> NodeHealth:
    _print_line(_("envcheck: cannot determine whether node {node} is healthy: {reason}", node=node_name(), reason=why))
    if terms.untold:
        _drain_node(terms, why)
    return NodeHealth(node_name(), "unknown", why, errors.CHECK_FAILED if terms.untold else errors.SUCCESS)


def _print_line(message: Message) -> None:
    click.echo(translate(message), err=True)


def _drain_node(terms: PrologTerms, reason: str) -> None:
    """Drain the node with this reason, in English; a node that is drained already keeps its reason."""
    if not terms.drain:
        return
    from launch.backends.slurm import control

    shown = control.run_scontrol("--oneliner", "show", "node", node_name())
    if "DRAIN" in shown.out.partition(" State=")[2].partition(" ")[0]:
        return
    for error in control.drain_nodes({node_name(): reason}):
        _print_line(_("envcheck: {error}", error=error))


def render_prolog_script(program: str, options: Sequence[str]) -> str:
    """Return a shell script for Prolog= or HealthCheckProgram=, which take a path without options.

    Only exit code 1 is passed on: slurmd would also drain the node if envcheck were missing or its options wrong."""
    words = shlex.join([program, "slurm", "prolog", *options])
    head = "#!/bin/sh\n# Prolog or HealthCheckProgram of slurm.conf; written by envcheck slurm prolog --as-script.\n"
    return f"{head}{words}\n[ $? -ne 1 ] || exit 1\n"
