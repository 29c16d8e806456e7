"""What `envcheck doctor --hosts` costs beside clush, and what judging a thousand recorded hosts does.

python benchmarks/fleet.py hosts [8 32]        as root: hosts are network namespaces with a real sshd each
python benchmarks/fleet.py replay [1000]       recordings of 16-card machines, three of them odd

All hosts share this machine's cores: their own work (a Python and the simulated tools on each) slows the others.
What is aimed at is 1.5 x clush running `true` on all, plus the slowest host's own doctor; so that this is measured as
it is under that load, too, all hosts are asked at once without ssh: for an installed `envcheck doctor`, and for nothing
but the probe that travels.  Told apart are the processor time of envcheck and its ssh children alone, that of a host,
and a run in which the hosts send again what they sent before, as hosts with cores of their own would leave it to us.
Beside it stand clush, ansible and pyinfra (where they are on PATH) as they run an envcheck that is installed on every
host and print its answers as they come, without a word on what differs.  Medians of RUNS, whose parts take turns.
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
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from doctor_helpers import simulated  # noqa: E402  (lies in tests/)
from fleet_parts import Fleet, Host, fleet  # noqa: E402

from envcheck import facts, snapshot  # noqa: E402
from envcheck.fleet import carrying  # noqa: E402
from envcheck.machine import SYSROOT  # noqa: E402

RUNS = 3
MACHINE, LARGE = "atlas-800t-a2", "atlas-200t-a2-box16"
ODD = {100: "driver-old", 500: "card-lost=3", 900: "hot=101"}


def timed(argv: Sequence[str], env: dict[str, str]) -> tuple[float, float]:
    """(clock, processor time with children), in seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    none = subprocess.DEVNULL
    subprocess.run(argv, env=env, cwd=ROOT, stdin=none, stdout=none, stderr=none, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, used


def median(argv: Sequence[str], env: dict[str, str]) -> tuple[float, float]:
    runs = [timed(argv, env) for _ in range(RUNS)]
    return statistics.median(r[0] for r in runs), statistics.median(r[1] for r in runs)


def hosts(sizes: Sequence[int]) -> None:
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder, fleet(Path(folder), size, MACHINE) as made:
            rows.append(measured(made, f"node[01-{size:02d}]"))
    print(tabulate([[name, *(row[name] for row in rows)] for name in rows[0]], floatfmt=".2f"))


def others(made: Fleet) -> dict[str, list[str]]:
    """Doctor on every host by the tools that a site has for it."""
    names, line = ",".join(host.name for host in made.hosts), f"cd {ROOT} && {sys.executable} -m envcheck doctor --json"
    return {
        "clush": [sys.executable, "-m", "ClusterShell.CLI.Clush", "-S", "-f", "64", "-w", names, line],
        "ansible": ["ansible", "all", "-i", f"{names},", "-u", "root", "-f", "64", "-m", "raw", "-a", line],
        "pyinfra": ["pyinfra", "-y", "--ssh-user", "root", "--ssh-key", str(made.key), names, "exec", "--", line],
    }


def beside(made: Fleet, env: dict[str, str]) -> dict[str, object]:
    return {
        f"{name} s": median(argv, env)[0] if shutil.which(argv[0], path=env["PATH"]) else None
        for name, argv in others(made).items()
    }


def measured(made: Fleet, names: str) -> dict[str, object]:
    env, python = made.environment(), sys.executable
    doctor = [python, "-m", "envcheck", "doctor", "--json"]
    over = [*doctor, "--hosts", names]
    clush = [python, "-m", "ClusterShell.CLI.Clush", "-S", "-f", "64", "-w", names]
    first_s, _ = timed(over, env)  # the file travels, and is compiled there
    probe = ["sh", "-c", carrying.command("auto", 60)]
    takes = [
        (timed(over, env), timed([*clush, "true"], env), by_itself(made, doctor), by_itself(made, probe))
        for _ in range(RUNS)
    ]
    (all_s, here_s), (true_s, _), (own_s, own_cpu_s), (probe_s, probe_cpu_s) = (
        tuple(statistics.median(pair) for pair in zip(*part, strict=True)) for part in zip(*takes, strict=True)
    )
    alone = max(timed(doctor, {**os.environ, SYSROOT: str(host.sysroot)})[0] for host in made.hosts[:RUNS])
    one = median([*doctor, "--hosts", "node01"], env)[0]
    same = beside(made, env)
    at_once(made, env)
    return {
        "hosts": len(made.hosts),
        "doctor --hosts s": all_s,
        "for the first time s": first_s,
        "clush true s": true_s,
        "own doctor, all at once s": own_s,
        "own probe, all at once s": probe_s,
        "own doctor, one alone s": alone,
        "of 1.5 clush + own doctor at once": all_s / (1.5 * true_s + own_s),
        "of 1.5 clush + own probe at once": all_s / (1.5 * true_s + probe_s),
        "of that here, cpu s": here_s,
        "a host's own doctor, cpu s": own_cpu_s / len(made.hosts),
        "a host's own probe, cpu s": probe_cpu_s / len(made.hosts),
        "one host over ssh s": one,
        "hosts that answer at once s": median(over, env)[0],
        **same,
    }


def by_itself(made: Fleet, argv: Sequence[str]) -> tuple[float, float]:
    """(clock until the slowest is done, processor time of all) of a command on all hosts at once, without ssh."""
    before, began, none = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), subprocess.DEVNULL
    running = [
        subprocess.Popen(["nsenter", f"--net=/run/netns/{host.space}", *argv], cwd=ROOT, stdin=none, stdout=none,
                         stderr=none, env=there(host))
        for host in made.hosts
    ]  # fmt: skip
    for child in running:
        child.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, used


def there(host: Host) -> dict[str, str]:
    own = {"HOME": host.home, "XDG_CACHE_HOME": host.home / ".cache", SYSROOT: host.sysroot}
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])
    return {**os.environ, **{name: str(value) for name, value in own.items()}, "PATH": path}


def at_once(made: Fleet, env: dict[str, str]) -> None:
    """From here on the hosts' python3 sends what it sent before: what is left is ours and ssh's."""
    ssh = str(made.home / "bin" / "ssh")
    done = subprocess.run([ssh, "node01", carrying.command("auto", 60)], env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, check=True)  # fmt: skip
    kept = made.folder / "answer"
    kept.write_bytes(done.stdout)
    for host in made.hosts:
        host.tool("python3", f"#!/bin/sh\nexec cat {kept}\n")


def replay(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        well = recorded()
        for number in range(1, count + 1):
            path = Path(folder) / f"node{number:04d}.json"
            if number in ODD:
                path.write_text(recorded(ODD[number]))
            else:
                path.write_text(other(well, number))
        argv = [sys.executable, "-m", "envcheck", "doctor", "--replay", folder]
        for more in ((), ("--json",)):
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
    with simulated(LARGE, wishes) as machine:
        return snapshot.dump(facts.ask(machine), "auto")


if __name__ == "__main__":
    what, *sizes = [*sys.argv[1:], "hosts"][: len(sys.argv[1:]) or 1]
    if what == "replay":
        replay(int(sizes[0]) if sizes else 1000)
    else:
        hosts([int(size) for size in sizes] or [8, 32])
