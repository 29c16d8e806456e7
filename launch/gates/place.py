"""Where the job runs: what is installed there, whether it can be entered, where its runs are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from envcheck.core.key_value import driver_version
from envcheck.core.model import Finding, Remedy, Status
from installers.locks import lockfile_use
from installers.locks.lockfile import Image, Lock
from launch.gates.answers import answer, skip, unseen, vendor
from launch.gates.context import GateContext

# What a gate of its own tells: the job's requirements by the very same judge, the rest by the very job and place.
ELSEWHERE = {
    "job.device": "devices",
    "job.cards": "devices",
    "job.memory": "memory",
    "job.degrees": "degrees",
    "job.host_memory": "host",
    "job.shm": "shm",
    "job.disk": "disk",
    "job.packages": "environment",
    "devices.visible": "visible",
    "network.own_name": "name",
    "host.shm": "shm",
    "host.stale_variables": "variables",
    "network.master": "variables",
    "network.port_base": "ports",
}


# What doctor only warns of, since a container's programs are root's; of those that run here as this user each fails.
ON_HOST = ("devices.access",)


def of_job(found: Iterable[Finding], device: str, boxed: bool) -> Iterator[Finding]:
    """Doctor's findings as they are for this job: `boxed`, in the recipe's container."""
    for finding in found:
        mine = finding.name in ON_HOST and finding.device in ("", device)
        if mine and not boxed and finding.status is Status.WARN:
            yield replace(finding, status=Status.FAIL)
        else:
            yield finding


# Areas whose doubts are told at the start; not the toolkit: the one that the job has was proved, here or in its box.
OF_CARDS = ("driver", "devices", "links")


def doctor(s: GateContext) -> Finding:
    """Nothing that doctor finds for this job fails; what another gate judges is left to that."""
    bad = [f for f in s.doctor if f.status is Status.FAIL and f.name not in ELSEWHERE]
    if not bad:
        return _unfailed(s)
    commands = tuple(dict.fromkeys(c for f in bad if f.remedy for c in f.remedy.commands))
    lines = tuple(f"{f.name}: {f.seen}. {f.remedy.words if f.remedy else ''}".rstrip() for f in bad)
    seen = f"{_checks(bad)} of {_checks(s.doctor)} checks failed"
    words = "Mend what they say; envcheck doctor tells more of each."
    return Finding("gate.doctor", Status.FAIL, seen, Remedy(words, commands), lines)


def _checks(found: Iterable[Finding]) -> int:
    """Once for each kind of cards, however much a check has to say."""
    return len({(f.name, f.device) for f in found})


def _unfailed(s: GateContext) -> Finding:
    """What doctor warns of, or cannot tell, of the cards themselves is said and closes nothing."""
    open_ = [f for f in s.doctor if f.status in (Status.WARN, Status.UNKNOWN) and f.name not in ELSEWHERE]
    doubts = [f for f in open_ if f.name.partition(".")[0] in OF_CARDS]
    seen = f"{_checks(s.doctor)} checks, none failed"
    if not doubts:
        return Finding("gate.doctor", Status.OK, seen)
    names = ", ".join(dict.fromkeys(f.name for f in doubts))
    lines = tuple(f"{f.name}: {f.seen}" for f in doubts)
    words = Remedy("See what they say.", (f"envcheck doctor {s.doctor_options}",))
    worst = min(f.status for f in doubts)  # what nobody can tell is no warning
    return Finding("gate.doctor", worst, f"{seen}; a look is due at {names}", words, lines)


def place(s: GateContext) -> Finding:
    """The recipe's container can be entered, where the job runs in one."""
    if s.sight.obstacle:
        words = s.sight.next_step or "envcheck doctor tells more of the engine."
        return Finding("gate.container", Status.FAIL, s.sight.obstacle, Remedy(words))
    return Finding("gate.container", Status.OK, f"it runs in {s.stage.title}")


def writable(s: GateContext) -> Finding:
    """The folder of runs can be written."""
    seen = f"{s.runs}: {s.runs_error or 'can be written'}"
    return answer("gate.folder", s.runs_error is None, seen, "Name a folder of your own with --runs.")


def alone(s: GateContext) -> Finding:
    """Nobody else trains in this folder."""
    seen = f"process {s.holder} trains in {s.runs}" if s.holder else f"no other run in {s.runs}"
    words = "Wait until it has ended, end it, or name another folder with --runs."
    return answer("gate.alone", s.holder is None, seen, words, f"kill {(s.holder or '').partition(' ')[0]}")


def complete(s: GateContext) -> Finding:
    """Everything in the command is filled in."""
    seen = f"not said: {', '.join(s.command.missing)}" if s.command.missing else "nothing left open"
    words = "Look at it with --dry-run; a job of several nodes wants --master ADDRESS, the same on each."
    if "interfaces" in s.command.missing:
        words += " --host ADDRESS wants one of this machine's own: by that its network interface is found."
    return answer("gate.command", not s.command.missing, seen, words)


def locked(s: GateContext) -> Finding:
    """Driver, image and packages are still what provision put in place, by its envcheck.lock."""
    if s.lock_error:
        words = "Provision anew: it writes another."
        return answer("gate.lock", None, s.lock_error, words, f"envcheck provision {s.options}")
    if s.lock is None:
        return skip("gate.lock", "there is no envcheck.lock: nothing was provisioned by envcheck")
    if hidden := unseen("gate.lock", s):
        return hidden
    found = vendor(s)
    image = Image(s.lock.image.reference, id=s.sight.image) if s.lock.image and s.sight.image else None
    commits = {folder: commit for folder, commit in s.sight.commits.items() if commit} or None
    other = [*lockfile_use.differences(s.lock, packages=s.sight.packages or None, image=image, commits=commits)]
    other += filter(None, [lockfile_use.another_driver(s.lock, driver_version(found) if found else None)])
    seen = f"{len(other)} differences from envcheck.lock: {other[0]}" if other else _kept(s.lock)
    words = "Put back what is locked, or provision anew and lock that."
    again = f"envcheck provision {s.options}"
    return answer("gate.lock", not other, seen, words, again, evidence=tuple(other[1:20]))


def _kept(lock: Lock) -> str:
    parts = [f"{len(lock.wheels)} packages", "the image" if lock.image else "", "the driver" if lock.driver else ""]
    return f"as in envcheck.lock: {', '.join(filter(None, parts))}"
