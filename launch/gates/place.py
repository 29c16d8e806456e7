"""Where the job runs: what is installed there, whether it can be entered, where its runs are kept."""

from __future__ import annotations

from envcheck.model import Finding, Remedy, Severity
from launch.gates.answers import answer
from launch.situation import Situation


def environment(s: Situation) -> Finding:
    """The recipe's software is installed and was proved."""
    seen = "; ".join(s.sight.missing) or f"{s.recipe.name} is installed and proved"
    return answer(
        "gate.environment",
        not s.sight.missing,
        seen,
        "Install what is missing, or let train do it with --provision.",
        f"envcheck provision {s.options}",
        f"envcheck train {s.options} --provision",
    )


def doctor(s: Situation) -> Finding:
    """Nothing that doctor finds for this job fails."""
    bad = [f for f in s.doctor if f.severity is Severity.FAIL]
    if not bad:
        return Finding("gate.doctor", Severity.OK, f"{len(s.doctor)} checks, none failed")
    commands = tuple(dict.fromkeys(c for f in bad if f.remedy for c in f.remedy.commands))
    lines = tuple(f"{f.name}: {f.seen}. {f.remedy.words if f.remedy else ''}".rstrip() for f in bad)
    seen = f"{len(bad)} of {len(s.doctor)} checks failed"
    words = "Mend what they say; envcheck doctor tells more of each."
    return Finding("gate.doctor", Severity.FAIL, seen, Remedy(words, commands), lines)


def place(s: Situation) -> Finding:
    """The recipe's container can be entered, where the job runs in one."""
    if s.sight.obstacle:
        words = s.sight.next_step or "envcheck doctor tells more of the engine."
        return Finding("gate.container", Severity.FAIL, s.sight.obstacle, Remedy(words))
    return Finding("gate.container", Severity.OK, f"it runs in {s.stage.title}")


def writable(s: Situation) -> Finding:
    """The folder of runs can be written."""
    seen = f"{s.runs}: {s.runs_error or 'can be written'}"
    return answer("gate.folder", s.runs_error is None, seen, "Name a folder of your own with --runs.")


def alone(s: Situation) -> Finding:
    """Nobody else trains in this folder."""
    seen = f"process {s.holder} trains in {s.runs}" if s.holder else f"no other run in {s.runs}"
    words = "Wait until it has ended, end it, or name another folder with --runs."
    return answer("gate.alone", s.holder is None, seen, words, f"kill {(s.holder or '').partition(' ')[0]}")


def complete(s: Situation) -> Finding:
    """Everything in the command is filled in."""
    seen = f"not said: {', '.join(s.command.missing)}" if s.command.missing else "nothing left open"
    words = "Look at it with --dry-run; a job of several nodes wants --master ADDRESS, the same on each."
    return answer("gate.command", not s.command.missing, seen, words)
