"""Print the progress and result of a run on standard error; standard output is for the JSON document."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from envcheck.core import errors, language
from envcheck.core.language.localized_findings import localize_findings
from envcheck.core.language.width import display_width
from envcheck.core.lint.own_job import OwnJob
from envcheck.core.messages import Message, _, fill, join, mark, ngettext
from envcheck.core.model import Finding, Status
from envcheck.core.secrets import redact_words
from envcheck.core.signals import tolerate_lost_output
from envcheck.core.units import MIB, format_mib
from envcheck.explain.diagnosis import Diagnosis
from envcheck.explain.localize import translate_diagnosis
from envcheck.job.command import TrainingCommand
from envcheck.job.own_job_text import render_own_job
from launch.gates import waive
from launch.gates.waive import GateWaiver
from launch.logs.fields import ESCAPE
from launch.run import loss_plot, states
from launch.run.first_failure import FirstFailure
from launch.run.launcher import TrainingEnd

LAST_LINES = 12
_HOW = {
    states.SUCCEEDED: mark("succeeded after {seconds} s"),
    states.FAILED: mark("training failed after {seconds} s"),
    states.BY_DEADLINE: mark("stopped at the time limit after {seconds} s"),
    states.UNSTARTED: mark("failed to start after {seconds} s"),
    states.BY_RULE: mark("stopped by a stop rule after {seconds} s"),
    states.BY_USER: mark("stopped after {seconds} s; all processes ended"),
}


def print_line(text: str = "") -> None:
    """Print a line without control characters."""
    with tolerate_lost_output():
        click.echo(sanitise_text(text), err=True)


def sanitise_text(text: str) -> str:
    """Return the text without escape sequences, control characters and bidirectional marks."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in ESCAPE.sub("", text))


def print_translated(text: str) -> None:
    """Print a message in the user's language."""
    print_line(language.translate(text))


def format_row(label: str, text: object, wide: int = 12) -> str:
    """Return the translated label, padded to `wide` columns, and the text."""
    name = language.translate(label)
    return f"{name}{' ' * max(1, wide - display_width(name))}{text}"


def print_closed_gates(shut: Sequence[Finding], is_chat: bool = False) -> None:
    """Print the failed gates of a training, or of a chat, with evidence and remedies."""
    headline = (
        ngettext(
            "envcheck: {count} preflight check failed; the chat was not started",
            "envcheck: {count} preflight checks failed; the chat was not started",
            len(shut),
        )
        if is_chat
        else ngettext(
            "envcheck: {count} preflight check failed; the training was not started",
            "envcheck: {count} preflight checks failed; the training was not started",
            len(shut),
        )
    )
    if shut and shut[0].status is Status.UNKNOWN:
        headline = ngettext(
            "envcheck: {count} preflight check is unknown; the training was not started (--fail-on-unknown)",
            "envcheck: {count} preflight checks are unknown; the training was not started (--fail-on-unknown)",
            len(shut),
        )
    print_translated(headline)
    for finding in localize_findings(shut):
        print_line("  " + language.translate(_("{name}: {seen}", name=finding.name, seen=finding.seen)))
        for line in finding.evidence:
            if line != finding.seen:
                print_line(f"    {language.translate(line)}")
        if finding.remedy:
            print_line(f"    {language.translate(finding.remedy.label)}{finding.remedy.words}")
            for line in finding.remedy.commands:
                print_line(f"      $ {line}")
    if names := waive.list_waivable_names(shut):
        hint = _(
            'to waive a check for one run, use --waive NAME --because "REASON" (recorded); names: {names}',
            names=join(", ", names),
        )
        print_line(f"  {language.translate(hint)}")


def print_doubts(found: Iterable[Finding]) -> None:
    """Print warnings and unknown results, which do not prevent the start."""
    doubts = [f for f in found if f.status in (Status.WARN, Status.UNKNOWN)]
    for f in localize_findings(doubts):
        end, label = language.translate(_(". ")), _("unknown: ") if f.status is Status.UNKNOWN else _("note: ")
        seen = language.translate(_("{name}: {seen}", name=f.name, seen=f.seen))
        print_line(f"{language.translate(label)}{seen}{end}{f.remedy.words if f.remedy else ''}".rstrip())
    if any(f.status is Status.UNKNOWN for f in doubts):
        print_translated(_("note: unknown preflight checks do not prevent the start; --fail-on-unknown changes that"))


def print_unused_waivers(waivers: Iterable[GateWaiver], opened: Sequence[str]) -> None:
    """Print the waivers that had no effect."""
    for waiver in waivers:
        if str(waiver) not in opened:
            print_line(
                language.translate(_("note: --waive {name} had no effect: this check did not fail", name=waiver.name))
            )


def print_own_job(own: OwnJob) -> None:
    """Print what was read of the user's own job."""
    for line in render_own_job(own):
        print_line(line)


def print_start(run: Path, made: TrainingCommand) -> None:
    """Print the run folder and the command."""
    print_line(format_row(_("run"), run, 7))
    print_line(format_row(_("command"), shlex.join(redact_words(made.argv)), 7))


def print_detached(run: Path, code: int | None) -> None:
    """Print how to follow a detached run, or its output if it ended immediately with `code`."""
    if code is None:
        print_line(format_row(_("detached"), run, 9))
        either = language.translate(
            _("{first}, or {second}", first=f"envcheck runs follow {run.name}", second=f"envcheck runs stop {run.name}")
        )
        print_line(f"  {language.translate(_('next: '))}{either}")
        return
    print_line(language.translate(_("the run ended immediately with exit code {code}; output:", code=code)))
    for line in (run / "log" / "envcheck.log").read_text("utf-8", "replace").splitlines()[-LAST_LINES:]:
        print_line(f"  | {line[:300]}")


def print_adopted(run_id: str) -> None:
    """Print how to follow a run that has a supervisor again."""
    print_line(format_row(_("adopted"), run_id, 9))
    either = _("{first}, or {second}", first=f"envcheck runs follow {run_id}", second=f"envcheck runs stop {run_id}")
    print_line(f"  {language.translate(_('next: '))}{language.translate(either)}")


def print_end(
    run: Path, ending: TrainingEnd, checkpoints: Sequence[str], code: int, diagnoses: Sequence[Diagnosis] = ()
) -> None:
    """Print the result: loss curve, memory, checkpoint, and after a failure the worker and the diagnoses."""
    if plot := loss_plot.render_text(ending.steps):
        print_line(plot)
    print_translated(_describe_outcome(ending))
    if fullest := _describe_cards(ending):
        print_line(fullest)
    if ending.stopped:
        _print_stop_rule(ending.stopped)
    if ending.how in (states.FAILED, states.UNSTARTED):
        _print_failure(run, ending)
    _print_diagnoses(diagnoses)
    if ending.left:
        pids = " ".join(map(str, ending.left[:64]))
        print_line(
            language.translate(_("processes still alive after SIGKILL, possibly using cards: {pids}", pids=pids))
        )
        where = _(
            "find where they hang with `cat /proc/{left}/stack`; reset the card or reboot to end them",
            left=ending.left[0],
        )
        print_line(f"  {language.translate(_('next: '))}{language.translate(where)}")
    for path in checkpoints[-1:]:
        print_line(format_row(_("checkpoint"), path))
    print_line(format_row(_("record"), run / "run.json"))
    if len(ending.steps) > 1:
        print_line(format_row(_("loss curve"), run / "loss.svg"))
    if code not in (errors.SUCCESS, errors.INTERRUPTED):
        print_line(format_row(_("logs"), run / "log"))


def print_continuation(run_id: str, has_checkpoint: bool) -> None:
    """Print the command that continues a run that did not finish, or repeats it."""
    command = f"envcheck train --resume {run_id}" if has_checkpoint else f"envcheck runs rerun {run_id}"
    print_line(format_row(_("go on"), command))


def _describe_cards(ending: TrainingEnd) -> str:
    """'cards       up to 61.2 GiB on card 3, up to 310 W on card 1'"""
    peaks = ending.cards.get("peaks", {})
    memory = [(peak["memory_mib"], name) for name, peak in peaks.items() if "memory_mib" in peak]
    power = [(peak["power_w"], name) for name, peak in peaks.items() if "power_w" in peak]
    parts = [_("up to {memory} on card {card}", memory=format_mib(m), card=name) for m, name in sorted(memory)[-1:]]
    parts += [_("up to {power:.0f} W on card {card}", power=w, card=name) for w, name in sorted(power)[-1:]]
    return format_row(_("cards"), language.translate(join(", ", parts))) if parts else ""


def print_warning(found: Finding, at_end: bool = False) -> None:
    """Print a warning about the running training; at the end without the remedy, which was printed before."""
    (finding,) = localize_findings([found])
    print_line(f"{language.translate(_('warning: '))}{language.translate(_quote_finding(finding))}")
    if at_end:
        return
    for line in finding.evidence[:LAST_LINES]:
        print_line(f"  | {language.translate(line)[:300]}")
    print_line(f"  {language.translate(_('next: '))}{finding.remedy.words if finding.remedy else ''}")


def _quote_finding(finding: Finding) -> Message:
    return _("{name}: {seen}", name=finding.name, seen=finding.seen)


def _print_stop_rule(why: Finding) -> None:
    (finding,) = localize_findings([why])
    print_translated(_("{name}: {seen}", name=finding.name, seen=finding.seen))
    for line in finding.evidence[:LAST_LINES]:
        print_line(f"  | {language.translate(line)[:300]}")
    print_line(f"  {language.translate(_('next: '))}{finding.remedy.words if finding.remedy else ''}")


def _describe_outcome(ending: TrainingEnd) -> Message:
    """'finished after 8 s: 50 steps, loss 5.545 -> 2.310, up to 1.2 GiB of host memory'"""
    parts: list[Message] = []
    if ending.steps:
        loss = f"{ending.steps[0].loss:.3f} -> {ending.steps[-1].loss:.3f}"
        completed = ending.steps[-1].step or len(ending.steps)
        parts += [ngettext("{count} step", "{count} steps", completed), _("loss {loss}", loss=loss)]
    if ending.peak_bytes:
        parts += [_("up to {memory} of host memory", memory=format_mib(ending.peak_bytes / MIB))]
    outcome = fill(_HOW[ending.how], seconds=f"{ending.seconds:.0f}")
    return _("{outcome}: {figures}", outcome=outcome, figures=join(", ", parts)) if parts else outcome


def _print_failure(run: Path, ending: TrainingEnd) -> None:
    failed = ending.failed
    if failed is None:
        print_line(
            language.translate(_("the launcher exited with status {status}; last output:", status=ending.status))
        )
        lines, source = ending.launcher_lines, run / "log" / "launcher.log"
    else:
        who = _describe_failed_worker(failed)
        words = (
            _(
                "{worker} (launcher exit status {status}); last output in the log shared by all workers:",
                worker=who,
                status=ending.status,
            )
            if failed.shared
            else _("{worker} (launcher exit status {status}); last output:", worker=who, status=ending.status)
        )
        print_line(language.translate(words))
        lines, source = failed.lines, run / "log" / (failed.log or "launcher.log")
    if failed and not failed.lines:  # the launcher writes no log per worker, or the worker printed nothing
        lines, source = ending.launcher_lines, run / "log" / "launcher.log"
    for line in lines[-LAST_LINES:]:
        print_line(f"  | {line[:300]}")
    print_line(f"  ({source})")


def _describe_failed_worker(failed: FirstFailure) -> Message:
    if failed.follows:
        return _(
            "no worker on this node failed first: worker {rank} ended first, {code}, after losing "
            "its connection to another worker; check the other nodes",
            rank=failed.rank,
            code=describe_exit(failed.code),
        )
    return _("worker {rank} failed first, {code}", rank=failed.rank, code=describe_exit(failed.code))


def _print_diagnoses(diagnoses: Sequence[Diagnosis]) -> None:
    """Print the first diagnosis in full, and up to two more in one line each."""
    for first in map(translate_diagnosis, diagnoses[:1]):
        print_line(format_row(_("cause") if first.kind == "cause" else _("observed"), first.description))
        print_line(f"  {first.why}")
        print_line(f"  {language.translate(_('next: '))}{first.do}")
        for line in first.commands:
            print_line(f"    $ {line}")
    for other in map(translate_diagnosis, diagnoses[1:3]):
        text = _("{problem} (consequence)", problem=other.description) if other.caused_by else other.description
        print_line(format_row(_("also"), language.translate(text)))


def describe_exit(code: int | None) -> Message:
    """Return 'exit code 1' or 'killed by SIGSEGV'."""
    if code is None:
        return _("exit code unknown")
    if code >= 0:
        return _("exit code {code}", code=code)
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return _("terminated by signal {number}", number=-code)
    if name == "SIGKILL":
        return _("killed by {signal}: out of memory, or killed by a user", signal=name)
    return _("killed by {signal}", signal=name)
