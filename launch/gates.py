"""What must be so before a training starts.  Each gate is a plain function of the situation; FAIL is a closed gate.

To add one: a function and its line in GATES.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable

from envcheck.model import Finding, Remedy, Severity
from envcheck.units import GIB, MIB, gib
from envcheck.vendors import VENDORS
from installers.recipes.recipe import wanted
from launch.command import Command
from launch.situation import Situation

Gate = Callable[[Situation], Finding]
OUTPUT_BYTES = 200 * MIB  # logs, record and checkpoints of the smallest model, with room to spare


def walk(situation: Situation) -> tuple[Finding, ...]:
    """All gates, in the order of the table: a person mends everything at once, not one a try."""
    return tuple(gate(situation) for gate in GATES.values())


def closed(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(f for f in findings if f.severity is Severity.FAIL)


def _answer(
    name: str, good: bool | None, seen: str, words: str, *commands: str, bad: Severity = Severity.FAIL
) -> Finding:
    """OK, `bad`, or with None: cannot tell."""
    severity = {True: Severity.OK, False: bad, None: Severity.UNKNOWN}[good]
    return Finding(name, severity, seen, None if good else Remedy(words, commands))


def environment(s: Situation) -> Finding:
    """The recipe's software is installed and was proved."""
    seen = "; ".join(s.sight.missing) or f"{s.recipe.name} is installed and proved"
    return _answer(
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


def devices(s: Situation) -> Finding:
    """As many devices, or processors, as the job starts processes."""
    needs = max(s.job.cards or 0, s.job.processes)
    if s.device == "cpu":
        cores = s.facts.host.cpu_count if s.facts.host else None
        seen = f"{needs} processes on {'an unknown number of' if cores is None else cores} processors"
        good = None if cores is None else cores >= needs
        return _answer("gate.devices", good, seen, "It will run, slowly.", bad=Severity.WARN)
    has = sum(len(v.devices) for v in s.facts.vendors if v.name == s.device)
    title = VENDORS[s.device].title
    return _answer(
        "gate.devices",
        has >= needs,
        f"{has} {title} devices, the job wants {needs}",
        f"Run it on a machine with {needs} of them; see its command with --dry-run.",
        f"envcheck doctor --device {s.device}",
    )


def memory(s: Situation) -> Finding:
    """The cards hold the job, by the planner; and as much host memory is free as the recipe wants."""
    host, cards = host_memory(s), device_memory(s)
    if cards is None or host.severity is Severity.SKIP:
        return cards or host
    return max(cards, host, key=lambda finding: finding.severity)


def device_memory(s: Situation) -> Finding | None:
    fit = s.facts.wanted.fit if s.facts.wanted else None
    if fit is None:
        return None
    severity = {True: Severity.OK, False: Severity.FAIL, None: Severity.UNKNOWN}[fit.fits]
    return Finding("gate.memory", severity, fit.reason, fit.remedy)


def host_memory(s: Situation) -> Finding:
    """As much free memory as the recipe wants."""
    wants = wanted(s.recipe, s.job).host_memory_gib
    has = s.facts.host.memory_available_bytes if s.facts.host else None
    if wants is None:
        return Finding("gate.memory", Severity.SKIP, "the recipe does not say how much host memory it needs")
    seen = f"{'unknown' if has is None else gib(has)} of host memory free, the job wants {wants:g} GiB"
    return _answer(
        "gate.memory", None if has is None else has >= wants * GIB, seen, "End what else uses it.", "free -h"
    )


def disk(s: Situation) -> Finding:
    """Room for logs, checkpoints and the record."""
    wants = max(OUTPUT_BYTES, int((s.job.disk_gib or 0) * GIB))
    has = s.sight.free_bytes
    seen = f"{'unknown' if has is None else gib(has)} free at {s.runs}, the run wants {gib(wants)}"
    words = "Make room, or name another folder with --runs."
    return _answer("gate.disk", None if has is None else has >= wants, seen, words, f"df -h {s.runs}")


def writable(s: Situation) -> Finding:
    """The folder of runs can be written."""
    seen = f"{s.runs}: {s.runs_error or 'can be written'}"
    return _answer("gate.folder", s.runs_error is None, seen, "Name a folder of your own with --runs.")


def alone(s: Situation) -> Finding:
    """Nobody else trains in this folder."""
    seen = f"process {s.holder} trains in {s.runs}" if s.holder else f"no other run in {s.runs}"
    words = "Wait until it has ended, end it, or name another folder with --runs."
    return _answer("gate.alone", s.holder is None, seen, words, f"kill {(s.holder or '').partition(' ')[0]}")


def data(s: Situation) -> Finding:
    """Every file that the job reads is there and holds something."""
    if s.stage.container and (s.sight.missing or s.sight.obstacle):
        words = "They are wanted in the recipe's container: look again when it is there."
        return Finding("gate.data", Severity.UNKNOWN, f"{s.stage.container} is not there to look into", Remedy(words))
    missing = [path for path, size in s.sight.sizes.items() if not size]
    if not missing:
        return Finding("gate.data", Severity.OK, ", ".join(s.sight.sizes) or "the job names no files")
    where = f" in {s.stage.container}" if s.stage.container else ""
    place = f"{s.command.workdir or 'here'}{where}"
    seen = f"missing or empty: {len(missing)} of {len(s.sight.sizes)} files, seen from {place}"
    lines = (f"{p} {'is not there or not readable' if s.sight.sizes[p] is None else 'is empty'}" for p in missing)
    words = " ".join(words for words, of in _SOURCES if any(of(s.command, path) for path in missing))
    return Finding("gate.data", Severity.FAIL, seen, Remedy(words), tuple(lines))


_SOURCES: tuple[tuple[str, Callable[[Command, str], bool]], ...] = (
    ("The scripts come with the vendor's toolkit: install it.", lambda made, path: path in made.scripts),
    ("Fetch the model from its hub into that folder.", lambda made, path: path.endswith("/config.json")),
    ("Put the data there, or name others with --data.", lambda made, path: path in made.data and made.own_data),
    ("Put the data there.", lambda made, path: path in made.data and not made.own_data),
    (
        "The rest comes with the project: envcheck provision --dry-run shows how to get it.",
        lambda made, path: path not in (*made.scripts, *made.data) and not path.endswith("/config.json"),
    ),
)


def port(s: Situation) -> Finding:
    """The port that the launcher would open is free."""
    if s.port is None:
        return Finding("gate.port", Severity.OK, "the launcher looks for free ports itself")
    seen = f"port {s.port}: {s.port_error or 'free'}"
    words = "Choose another with --port, or end who holds it."
    return _answer("gate.port", s.port_error is None, seen, words, f"ss -ltnp 'sport = :{s.port}'")


def own_name(s: Situation) -> Finding:
    """The machine's own name leads to an address; with several nodes, to one that the others reach."""
    known = s.facts.network
    if known is None:
        return _answer("gate.name", None, "could not tell what the own name resolves to", "getent hosts $(hostname)")
    found = known.resolves_to or ()
    several = s.job.nodes > 1
    good = any(not _loopback(a) for a in found) if several else bool(found)
    seen = f"the own name resolves to {', '.join(found) or 'nothing'}"
    words = "Add the machine's name and address to /etc/hosts: the launcher finds itself by them."
    return _answer(
        "gate.name", good, seen, words, "getent hosts $(hostname)", bad=Severity.FAIL if several else Severity.WARN
    )


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def left_overs(s: Situation) -> Finding:
    """Variables of an earlier job: never a reason to stop, since they are left out, but said."""
    if not s.stale:
        return Finding("gate.variables", Severity.OK, "no left-over job variables")
    return Finding("gate.variables", Severity.OK, f"left out of the training's environment: {', '.join(s.stale)}")


def complete(s: Situation) -> Finding:
    """Everything in the command is filled in."""
    seen = f"not said: {', '.join(s.command.missing)}" if s.command.missing else "nothing left open"
    words = "Look at it with --dry-run; a job of several nodes wants --master ADDRESS, the same on each."
    return _answer("gate.command", not s.command.missing, seen, words)


def place(s: Situation) -> Finding:
    """The recipe's container can be entered, where the job runs in one."""
    if s.sight.obstacle:
        words = s.sight.next_step or "envcheck doctor tells more of the engine."
        return Finding("gate.container", Severity.FAIL, s.sight.obstacle, Remedy(words))
    return Finding("gate.container", Severity.OK, f"it runs in {s.stage.title}")


GATES: dict[str, Gate] = {
    "environment": environment,
    "doctor": doctor,
    "devices": devices,
    "memory": memory,
    "disk": disk,
    "folder": writable,
    "alone": alone,
    "data": data,
    "port": port,
    "name": own_name,
    "variables": left_overs,
    "command": complete,
    "container": place,
}
