"""`envcheck slurm prolog`: is this node fit for the next job.  slurmd starts it as root, before a job or by a clock.

Slurm drains a node whose Prolog ends with anything but 0, so nothing but a fault of the node may: what could not be
told, and a mistake of ours, are 0 as well, with a line that says so.
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
from envcheck.core.model import Finding, Status

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # slurmd gives a HealthCheckProgram none
LOOKED_AT = ("driver", "devices", "links", "own")
# What a job brings with it, or another job of the node may rightly cause.
LEFT_OUT = ("devices.visible", "devices.remapped", "devices.order")
USED = ("devices.processes", "devices.memory", "devices.utilization", "devices.shared", "devices.open_nodes")


class PrologTimeoutError(BaseException):
    """The time is over; no Exception, so that no check takes it for its own failure."""


@dataclass(frozen=True)
class PrologTerms:
    """`alone`: jobs have the node for themselves; `limit_s`: of the whole look; `untold` fails a node as well."""

    device: str = "auto"
    config: str | None = None
    skip: tuple[str, ...] = ()
    alone: bool = False
    drain: bool = False
    limit_s: float = 30.0
    untold: bool = False


@dataclass(frozen=True)
class NodeHealth:
    """`verdict` is fit, unfit or unknown; `reason` one line where it is not fit."""

    node: str
    verdict: str
    reason: str
    exit_code: int


def prolog(terms: PrologTerms) -> NodeHealth:
    """Whether the node is fit, with one line on standard error where all is not well."""
    os.environ.setdefault("PATH", PATH)
    try:
        with _within(terms.limit_s):
            found = _findings(terms)
    except PrologTimeoutError:
        return _untold(terms, f"it could not be told in {terms.limit_s:g} s")
    except errors.EnvcheckError as err:
        return _untold(terms, err.message)
    except Exception as err:  # a mistake of ours takes no node out of use
        return _untold(terms, f"a bug in envcheck: {type(err).__name__}: {err}")
    bad = {Status.FAIL: True, Status.WARN: terms.alone}  # with --alone a card in use is no mere warning
    wrong = [f for f in found if not f.waived and bad.get(f.status) and (f.status > Status.WARN or f.name in USED)]
    if wrong:
        return _unfit(terms, wrong)
    unknown = [f for f in found if f.status is Status.UNKNOWN and not f.waived]
    return _untold(terms, _reason(unknown)) if unknown else NodeHealth(node(), "fit", "", errors.FIT)


def node() -> str:
    """What Slurm calls this node."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


def _findings(terms: PrologTerms) -> list[Finding]:
    """What doctor finds, of what a node has by itself."""
    import datetime
    from dataclasses import replace

    from envcheck import checks, settings
    from envcheck.checks import custom
    from envcheck.collect import facts, machine

    site = settings.load(terms.config) if terms.config else None
    more = custom.checks(site) if site else ()
    told = facts.gather(machine.here(), terms.device, more=site.questions if site else ())
    if site:
        told = replace(told, thresholds=site.thresholds)
    areas = {check.name.partition(".")[0] for check in (*checks.CHECKS, *more)}
    without = (*LEFT_OUT, *(() if terms.alone else USED), *terms.skip)
    found = checks.run_all(told, [area for area in LOOKED_AT if area in areas], without, more)
    return list(custom.waived(found, site, datetime.date.today()) if site else found)


@contextmanager
def _within(limit_s: float) -> Iterator[None]:
    """OverError when it takes longer; the tools that it waits for end with it."""

    def over(number: int, frame: object) -> None:
        raise PrologTimeoutError

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _reason(found: Sequence[Finding]) -> str:
    """The one that others follow from first: 'devices.count: lspci 8, npu-smi 7 (and 2 more)'"""
    from envcheck.report.summary import ROOTS

    first = min(found, key=lambda f: f.name not in ROOTS)
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return "".join(c if c.isprintable() else "?" for c in f"{first.name}: {first.seen}")[:200] + more


def _unfit(terms: PrologTerms, wrong: Sequence[Finding]) -> NodeHealth:
    reason = _reason(wrong)
    click.echo(f"envcheck: {node()} is not fit: {reason}", err=True)
    _drain(terms, reason)
    return NodeHealth(node(), "unfit", reason, errors.UNFIT)


def _untold(terms: PrologTerms, why: str) -> NodeHealth:
    click.echo(f"envcheck: {node()}: could not tell: {why}", err=True)
    if terms.untold:
        _drain(terms, why)
    return NodeHealth(node(), "unknown", why, errors.UNFIT if terms.untold else errors.FIT)


def _drain(terms: PrologTerms, reason: str) -> None:
    """Out of use with our words; an operator's own reason, or ours of before, stays."""
    if not terms.drain:
        return
    from launch.backends.slurm import control

    told = control.scontrol("--oneliner", "show", "node", node())
    if " State=" in told.out and "DRAIN" in told.out.partition(" State=")[2].partition(" ")[0]:
        return
    for line in control.drain({node(): reason}):
        click.echo(f"envcheck: {line}", err=True)


def script(program: str, options: Sequence[str]) -> str:
    """A file for Prolog= or HealthCheckProgram=, which take a path and no options."""
    words = shlex.join([program, "slurm", "prolog", *options])
    head = "#!/bin/sh\n# Prolog or HealthCheckProgram of slurm.conf; written by envcheck slurm prolog --as-script.\n"
    return f"{head}exec {words}\n"
