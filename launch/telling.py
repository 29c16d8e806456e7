"""A run in words for a person, on standard error; standard output is for the JSON document."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from envcheck import errors, language
from envcheck.language.findings import localised
from envcheck.model import Finding, Severity
from envcheck.stopping import unheard
from envcheck.units import MIB, mib
from launch import curve
from launch.blame import Failed
from launch.command import Command
from launch.diagnose.model import Diagnosis
from launch.gates import waive
from launch.gates.waive import Waiver
from launch.launcher import Ending

LAST_LINES = 12
_HOW = {
    "finished": "finished",
    "failed": "the training ended badly",
    "deadline": "ended at its deadline",
    "unstarted": "could not be started",
    "stopped": "ended early",
    "interrupted": "interrupted, all its processes ended,",
}


def say(text: str = "") -> None:
    with unheard():
        click.echo(text, err=True)


def closed(shut: Sequence[Finding]) -> None:
    """Which gates, why, and what would open them."""
    gates = "gate is" if len(shut) == 1 else "gates are"
    say(language.say(f"envcheck: {len(shut)} {gates} closed; nothing was started"))
    for finding in localised(shut):
        say(f"  {finding.name}: {finding.seen}")
        for line in finding.evidence:
            if line != finding.seen:
                say(f"    {line}")
        if finding.remedy:
            say(f"    {language.say('next: ')}{finding.remedy.words}")
            for line in finding.remedy.commands:
                say(f"      $ {line}")
    if names := waive.names(shut):
        opens = f'for one run, and on its record, --waive NAME --because "why" opens: {", ".join(names)}'
        say(f"  {language.say(opens)}")


def doubts(found: Iterable[Finding]) -> None:
    """What does not stop the run but should be known."""
    for f in localised([f for f in found if f.severity in (Severity.WARN, Severity.UNKNOWN)]):
        end = language.say(". ")
        say(f"{language.say('note: ')}{f.name}: {f.seen}{end}{f.remedy.words if f.remedy else ''}".rstrip())


def in_vain(waivers: Iterable[Waiver], opened: Sequence[str]) -> None:
    """Who copies a command from another machine learns what is not needed here."""
    for waiver in waivers:
        if str(waiver) not in opened:
            say(language.say(f"note: --waive {waiver.name} opened nothing: it is not closed here"))


def start(run: Path, made: Command) -> None:
    say(f"run    {run}")
    say(f"starts {shlex.join(made.argv)}")


def detached(run: Path, code: int | None) -> None:
    """It runs without us, or it ended before it began."""
    if code is None:
        say(f"detached {run}")
        say(f"  next: envcheck runs follow {run.name}, or envcheck runs stop {run.name}")
        return
    say(f"the run ended at once, with exit code {code}; its words:")
    for line in (run / "log" / "envcheck.log").read_text("utf-8", "replace").splitlines()[-LAST_LINES:]:
        say(f"  | {line[:300]}")


def end(run: Path, ending: Ending, checkpoints: Sequence[str], code: int, told: Sequence[Diagnosis] = ()) -> None:
    """How it went: the loss as a plot, what is left, and after a failure whose fault it was."""
    if plot := curve.text(ending.steps):
        say(plot)
    say(f"{_HOW[ending.how]} after {ending.seconds:.0f} s{_losses(ending)}{_memory(ending)}")
    if fullest := _cards(ending):
        say(fullest)
    if ending.stopped:
        _stopped(ending.stopped)
    if ending.how in ("failed", "unstarted"):
        _blame(run, ending)
        _diagnosed(told)
    if ending.left:
        pids = " ".join(map(str, ending.left[:64]))
        say(f"still there, in spite of SIGKILL, and may hold cards: {pids}")
        say(f"  next: see where they hang, cat /proc/{ending.left[0]}/stack; a reset of the card or a reboot ends them")
    for path in checkpoints[-1:]:
        say(f"checkpoint  {path}")
    say(f"record      {run / 'run.json'}")
    if len(ending.steps) > 1:
        say(f"loss curve  {run / 'loss.svg'}")
    if code not in (errors.FIT, errors.INTERRUPTED):
        say(f"logs        {run / 'log'}")


def _cards(ending: Ending) -> str:
    """'cards       at most 61.2 GiB, on card 3, and 310 W, on card 1'"""
    peaks = ending.cards.get("peaks", {})
    held = [(peak["memory_mib"], name) for name, peak in peaks.items() if "memory_mib" in peak]
    drawn = [(peak["power_w"], name) for name, peak in peaks.items() if "power_w" in peak]
    said = [f"{mib(most)}, on card {name}" for most, name in [max(held)]] if held else []
    said += [f"{most:.0f} W, on card {name}" for most, name in [max(drawn)]] if drawn else []
    return f"cards       at most {', and '.join(said)}" if said else ""


def _stopped(why: Finding) -> None:
    say(f"{why.name}: {why.seen}")
    for line in why.evidence[:LAST_LINES]:
        say(f"  | {line[:300]}")
    say(f"  next: {why.remedy.words if why.remedy else ''}")


def _losses(ending: Ending) -> str:
    if not ending.steps:
        return ""
    first, last = ending.steps[0].loss, ending.steps[-1].loss
    made = ending.steps[-1].step or len(ending.steps)
    return f": {made} step{'s' * (made != 1)}, loss {first:.3f} -> {last:.3f}"


def _memory(ending: Ending) -> str:
    return f", at most {mib(ending.peak_bytes / MIB)} of host memory" if ending.peak_bytes else ""


def _blame(run: Path, ending: Ending) -> None:
    failed = ending.failed
    if failed is None:
        say(f"the launcher ended with status {ending.status}; its last words:")
        lines, source = ending.launcher_lines, run / "log" / "launcher.log"
    else:
        whose = "the last words in the log that the workers share" if failed.shared else "its last words"
        say(f"{_who(failed)} (the launcher: {ending.status}); {whose}:")
        lines, source = failed.lines, run / "log" / (failed.log or "launcher.log")
    if failed and not failed.lines:  # a launcher that keeps no log of each worker, or one that said nothing
        lines, source = ending.launcher_lines, run / "log" / "launcher.log"
    for line in lines[-LAST_LINES:]:
        say(f"  | {line[:300]}")
    say(f"  ({source})")


def _who(failed: Failed) -> str:
    if failed.follows:
        return (
            f"no worker here failed by itself: worker {failed.rank} was the first to end, {ended(failed.code)}, "
            "when it lost another one; look on the other nodes"
        )
    return f"worker {failed.rank} failed first, {ended(failed.code)}"


def _diagnosed(told: Sequence[Diagnosis]) -> None:
    """What is known of such words: the cause, and in short what else was seen."""
    for one in told[:1]:
        say(f"{'cause' if one.kind == 'cause' else 'seen':<12}{one.says}")
        say(f"  {one.why}")
        say(f"  next: {one.do}")
        for line in one.commands:
            say(f"    $ {line}")
    for one in told[1:3]:
        say(f"also        {one.says}{' (follows from it)' if one.follows else ''}")


def ended(code: int | None) -> str:
    """'with code 1', or by which signal."""
    if code is None:
        return "with a code nobody saw"
    if code >= 0:
        return f"with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"ended by {name}" + (": the kernel's, when memory ran out, or somebody's" if name == "SIGKILL" else "")
