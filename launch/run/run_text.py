"""A run in words for a person, on standard error; standard output is for the JSON document."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from envcheck.core import errors, language
from envcheck.core.language.findings import localised
from envcheck.core.language.width import columns
from envcheck.core.model import Finding, Status
from envcheck.core.secrets import blank_words
from envcheck.core.signals import unheard
from envcheck.core.units import MIB, mib
from envcheck.explain.localize import spoken
from envcheck.explain.model import Diagnosis
from envcheck.job.command import TrainingCommand
from launch.gates import waive
from launch.gates.waive import GateWaiver
from launch.logs.fields import ESCAPE
from launch.run import loss_plot
from launch.run.first_failure import FirstFailure
from launch.run.launcher import Ending

LAST_LINES = 12
_HOW = {
    "finished": "finished after {} s",
    "failed": "the training ended badly after {} s",
    "deadline": "ended at its deadline after {} s",
    "unstarted": "could not be started after {} s",
    "stopped": "ended early after {} s",
    "interrupted": "interrupted, all its processes ended, after {} s",
}


def say(text: str = "") -> None:
    with unheard():
        click.echo(harmless(text), err=True)


def harmless(text: str) -> str:
    """What a log, a file or a tool says moves no cursor and turns no line round, on a terminal either."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in ESCAPE.sub("", text))


def spoken_aside(text: str) -> None:
    """A sentence of ours, in the chosen language."""
    say(language.say(text))


def row(label: str, text: object, wide: int = 12) -> str:
    """A label in its column, then what it says."""
    said = language.label(label)
    return f"{said}{' ' * max(1, wide - columns(said))}{text}"


def closed(shut: Sequence[Finding]) -> None:
    """Which gates, why, and what would open them."""
    gates = "gate is" if len(shut) == 1 else "gates are"
    say(language.say(f"envcheck: {len(shut)} {gates} closed; nothing was started"))
    for finding in localised(shut):
        say(f"  {finding.name}: {finding.seen}")
        for line in finding.evidence:
            if line != finding.seen:
                say(f"    {language.say(line)}")
        if finding.remedy:
            say(f"    {language.say('next: ')}{finding.remedy.words}")
            for line in finding.remedy.commands:
                say(f"      $ {line}")
    if names := waive.names(shut):
        opens = f'for one run, and on its record, --waive NAME --because "why" opens: {", ".join(names)}'
        say(f"  {language.say(opens)}")


def doubts(found: Iterable[Finding]) -> None:
    """What does not stop the run but should be known."""
    for f in localised([f for f in found if f.status in (Status.WARN, Status.UNKNOWN)]):
        end = language.say(". ")
        say(f"{language.say('note: ')}{f.name}: {f.seen}{end}{f.remedy.words if f.remedy else ''}".rstrip())


def in_vain(waivers: Iterable[GateWaiver], opened: Sequence[str]) -> None:
    """Who copies a command from another machine learns what is not needed here."""
    for waiver in waivers:
        if str(waiver) not in opened:
            say(language.say(f"note: --waive {waiver.name} opened nothing: it is not closed here"))


def start(run: Path, made: TrainingCommand) -> None:
    say(row("run", run, 7))
    say(row("starts", shlex.join(blank_words(made.argv)), 7))


def detached(run: Path, code: int | None) -> None:
    """It runs without us, or it ended before it began."""
    if code is None:
        say(row("detached", run, 9))
        either = language.say("{}, or {}").format(f"envcheck runs follow {run.name}", f"envcheck runs stop {run.name}")
        say(f"  {language.say('next: ')}{either}")
        return
    say(language.say(f"the run ended at once, with exit code {code}; its words:"))
    for line in (run / "log" / "envcheck.log").read_text("utf-8", "replace").splitlines()[-LAST_LINES:]:
        say(f"  | {line[:300]}")


def end(run: Path, ending: Ending, checkpoints: Sequence[str], code: int, told: Sequence[Diagnosis] = ()) -> None:
    """How it went: the loss as a plot, what is left, and after a failure whose fault it was."""
    if plot := loss_plot.text(ending.steps):
        say(plot)
    say(f"{language.say(_HOW[ending.how]).format(f'{ending.seconds:.0f}')}{_losses(ending)}{_memory(ending)}")
    if fullest := _cards(ending):
        say(fullest)
    if ending.stopped:
        _stopped(ending.stopped)
    if ending.how in ("failed", "unstarted"):
        _blame(run, ending)
    _diagnosed(told)
    if ending.left:
        pids = " ".join(map(str, ending.left[:64]))
        say(language.say(f"still there, in spite of SIGKILL, and may hold cards: {pids}"))
        where = f"see where they hang, cat /proc/{ending.left[0]}/stack; a reset of the card or a reboot ends them"
        say(f"  {language.say('next: ')}{language.say(where)}")
    for path in checkpoints[-1:]:
        say(row("checkpoint", path))
    say(row("record", run / "run.json"))
    if len(ending.steps) > 1:
        say(row("loss curve", run / "loss.svg"))
    if code not in (errors.FIT, errors.INTERRUPTED):
        say(row("logs", run / "log"))


def _cards(ending: Ending) -> str:
    """'cards       at most 61.2 GiB, on card 3, and 310 W, on card 1'"""
    peaks = ending.cards.get("peaks", {})
    held = [(peak["memory_mib"], name) for name, peak in peaks.items() if "memory_mib" in peak]
    drawn = [(peak["power_w"], name) for name, peak in peaks.items() if "power_w" in peak]
    said = (
        [language.say("at most {}, on card {}").format(mib(most), name) for most, name in [max(held)]] if held else []
    )
    watts = language.say(", and {} W, on card {}" if said else "at most {} W, on card {}")
    said += [watts.format(f"{most:.0f}", name) for most, name in [max(drawn)]] if drawn else []
    return row("cards", "".join(said)) if said else ""


def _stopped(why: Finding) -> None:
    (told,) = localised([why])
    say(f"{told.name}: {told.seen}")
    for line in told.evidence[:LAST_LINES]:
        say(f"  | {language.say(line[:300])}")
    say(f"  {language.say('next: ')}{told.remedy.words if told.remedy else ''}")


def _losses(ending: Ending) -> str:
    if not ending.steps:
        return ""
    first, last = ending.steps[0].loss, ending.steps[-1].loss
    made = ending.steps[-1].step or len(ending.steps)
    counted = language.say(": {} steps, loss {}" if made != 1 else ": {} step, loss {}")
    return counted.format(made, f"{first:.3f} -> {last:.3f}")


def _memory(ending: Ending) -> str:
    most = language.say(", at most {} of host memory")
    return most.format(mib(ending.peak_bytes / MIB)) if ending.peak_bytes else ""


def _blame(run: Path, ending: Ending) -> None:
    failed = ending.failed
    if failed is None:
        say(language.say(f"the launcher ended with status {ending.status}; its last words:"))
        lines, source = ending.launcher_lines, run / "log" / "launcher.log"
    else:
        shared = "{} (the launcher: {}); the last words in the log that the workers share:"
        own = "{} (the launcher: {}); its last words:"
        say(language.say(shared if failed.shared else own).format(language.say(_who(failed)), ending.status))
        lines, source = failed.lines, run / "log" / (failed.log or "launcher.log")
    if failed and not failed.lines:  # a launcher that keeps no log of each worker, or one that said nothing
        lines, source = ending.launcher_lines, run / "log" / "launcher.log"
    for line in lines[-LAST_LINES:]:
        say(f"  | {line[:300]}")
    say(f"  ({source})")


def _who(failed: FirstFailure) -> str:
    if failed.follows:
        return (
            f"no worker here failed by itself: worker {failed.rank} was the first to end, {ended(failed.code)}, "
            "when it lost another one; look on the other nodes"
        )
    return f"worker {failed.rank} failed first, {ended(failed.code)}"


def _diagnosed(told: Sequence[Diagnosis]) -> None:
    """What is known of such words: the cause, and in short what else was seen."""
    for one in map(spoken, told[:1]):
        say(row("cause" if one.kind == "cause" else "seen", one.says))
        say(f"  {one.why}")
        say(f"  {language.say('next: ')}{one.do}")
        for line in one.commands:
            say(f"    $ {line}")
    for one in map(spoken, told[1:3]):
        say(row("also", f"{one.says}{language.say(' (follows from it)') if one.follows else ''}"))


def ended(code: int | None) -> str:
    """'with code 1', or by which signal; in English: a node's word, too."""
    if code is None:
        return "with a code nobody saw"
    if code >= 0:
        return f"with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"ended by {name}" + (": the kernel's, when memory ran out, or somebody's" if name == "SIGKILL" else "")
