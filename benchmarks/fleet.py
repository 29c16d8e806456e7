"""What `envcheck doctor --hosts` costs compared with clush, and what judging ten thousand recorded hosts does.

python -m benchmarks.fleet hosts [8 32]        as root: hosts are network namespaces with a real sshd each
python -m benchmarks.fleet replay [10000]      recordings of 16-card machines, three of them odd

What is aimed at is 1.5 x clush running `true` on all, plus the slowest host's own doctor.  All hosts share this
machine's cores, so that this one is measured as it is under that load: all are asked at once without ssh, for an
installed `envcheck doctor`, and for nothing but the probe that travels.  Beside it stand clush, ansible and pyinfra
(where they are on PATH) as they run an envcheck that is installed on every host and print its answers as they come,
without a word on what differs.  Hosts that send again what they sent before are as those with cores of their own.

Of each the clock, the processor time of what runs here, and that with the hosts' own (their sshd and its children),
which tells the same on a machine that others use.  Medians of RUNS, which take turns.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
from tabulate import tabulate

from envcheck.collect import facts, snapshot
from envcheck.collect.host.answers import SYSROOT
from tests.envcheck.checks.doctor_helpers import simulate_machine
from tests.envcheck.fleet.fleet_parts import SshFleet, SshHost, start_fleet

ROOT = Path(__file__).parent.parent

RUNS, SETTLED_S, NONE = 3, 0.3, subprocess.DEVNULL
DOCTOR = (sys.executable, "-m", "envcheck", "doctor", "--json")
FRESH = {"ANSIBLE_SSH_ARGS": "-o ControlMaster=no"}  # connections of its own each time, as the others have
CLUSH = (sys.executable, "-m", "ClusterShell.CLI.Clush", "-S", "-f", "64")
MACHINE, LARGE = "atlas-800t-a2", "atlas-200t-a2-box16"
ODD = {100: "driver-old", 500: "card-lost=3", 900: "hot=101"}


class Took(NamedTuple):
    """Seconds: by the clock, of processors here, and of those with the hosts' own."""

    clock: float
    here: float
    all: float


def timed(argv: Sequence[str], env: dict[str, str]) -> tuple[float, float]:
    """(clock, processor time with children), in seconds."""
    before, began = _children(), time.perf_counter()
    subprocess.run(argv, env=env, cwd=ROOT, stdin=NONE, stdout=NONE, stderr=NONE, check=False)
    return time.perf_counter() - began, _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def over_ssh(made: SshFleet, argv: Sequence[str]) -> Took:
    before = _of_hosts(made)
    clock, here = timed(argv, {**made.make_environment(), **FRESH})
    time.sleep(SETTLED_S)
    return Took(clock, here, here + _of_hosts(made) - before)


def _of_hosts(made: SshFleet) -> float:
    """Processor time of each sshd and of what it has waited for."""
    return sum(sum(psutil.Process(host.child.pid).cpu_times()[:4]) for host in made.hosts if host.child)


def by_itself(made: SshFleet, argv: Sequence[str]) -> Took:
    """A command on all hosts at once, without ssh, until the slowest is done."""
    before, began = _children(), time.perf_counter()
    running = [
        subprocess.Popen(["nsenter", f"--net=/run/netns/{host.space}", *argv], cwd=ROOT, stdin=NONE, stdout=NONE,
                         stderr=NONE, env=there(host))
        for host in made.hosts
    ]  # fmt: skip
    for child in running:
        child.wait()
    used = _children() - before
    return Took(time.perf_counter() - began, 0, used)


def there(host: SshHost) -> dict[str, str]:
    own = {"HOME": host.home, "XDG_CACHE_HOME": host.home / ".cache", SYSROOT: host.sysroot}
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])
    return {**os.environ, **{name: str(value) for name, value in own.items()}, "PATH": path}


def hosts(sizes: Sequence[int]) -> None:
    found = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder, start_fleet(Path(folder), size, MACHINE) as made:
            found.append(measured(made, f"node[01-{size:02d}]"))
    rows = [[name, *(figure for one in found for figure in one[name])] for name in found[0]]
    print(tabulate(rows, ["", *(f"{size}: {what}" for size in sizes for what in ("clock s", "cpu here", "cpu in all"))],
                   floatfmt=".2f"))  # fmt: skip


def measured(made: SshFleet, names: str) -> dict[str, Took]:
    over = [*DOCTOR, "--hosts", names]
    ways: dict[str, Callable[[], Took]] = {
        "doctor --hosts": lambda: over_ssh(made, over),
        "clush true": lambda: over_ssh(made, [*CLUSH, "-w", names, "true"]),
        "own doctor, all at once": lambda: by_itself(made, DOCTOR),
        "one host": lambda: over_ssh(made, [*DOCTOR, "--hosts", "node01"]),
    }
    for name, argv in others(made).items():
        if shutil.which(argv[0], path=made.make_environment()["PATH"]):
            ways[f"{name}: own doctor"] = lambda argv=argv: over_ssh(made, argv)  # type: ignore[misc]
    took = medians(ways)
    return {**took, "1.5 x clush true + own doctor": bound(took["clush true"], took["own doctor, all at once"])}


def medians(ways: Mapping[str, Callable[[], Took]]) -> dict[str, Took]:
    rounds = [{name: way() for name, way in ways.items()} for _ in range(RUNS)]
    return {name: median([one[name] for one in rounds]) for name in ways}


def median(took: Sequence[Took]) -> Took:
    return Took(*map(statistics.median, zip(*took, strict=True)))


def bound(true: Took, own: Took) -> Took:
    return Took(*(1.5 * one + other for one, other in zip(true, own, strict=True)))


def others(made: SshFleet) -> dict[str, list[str]]:
    """Doctor on every host by the tools that a site has for it."""
    names, line = ",".join(host.name for host in made.hosts), f"cd {ROOT} && {' '.join(DOCTOR)}"
    return {
        "clush": [*CLUSH, "-w", names, line],
        "ansible": ["ansible", "all", "-i", f"{names},", "-u", "root", "-f", "64", "-m", "raw", "-a", line],
        "pyinfra": ["pyinfra", "-y", "--ssh-user", "root", "--ssh-key", str(made.key), names, "exec", "--", line],
    }


def replay(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        well = recorded()
        for number in range(1, count + 1):
            path = Path(folder) / f"node{number:05d}.json"
            if number in ODD:
                path.write_text(recorded(ODD[number]))
            else:
                path.write_text(other(well, number))
        argv = [sys.executable, "-m", "envcheck", "doctor", "--replay", folder]
        for more in ((), ("--json-lines",)):  # --json keeps all hosts, and is for a few hundred
            clock, used = timed([*argv, *more], dict(os.environ))
            # the largest child so far: the recordings were made by far smaller ones
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(
                f"{count} recordings of {LARGE} {' '.join(more)}: {clock:.1f} s, cpu {used:.1f} s, peak {peak:.0f} MiB"
            )


def other(well: str, number: int) -> str:
    """Each host has figures of its own: no answer of its cards is like another host's."""
    drawn = rf"\g<1>{60 + number % 300 / 10:.1f}"
    return re.sub(r"(\| OK +\| )\d\d\.\d", drawn, well).replace(
        '"hostname\\": ', f'"number\\": {number}, \\"hostname\\": '
    )


def recorded(*wishes: str) -> str:
    with simulate_machine(LARGE, wishes) as machine:
        return snapshot.render_snapshot(facts.ask_machine(machine), "auto")


if __name__ == "__main__":
    what, *sizes = [*sys.argv[1:], "hosts"][: len(sys.argv[1:]) or 1]
    if what == "replay":
        replay(int(sizes[0]) if sizes else 10_000)
    else:
        hosts([int(size) for size in sizes] or [8, 32])
