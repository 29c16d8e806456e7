"""Pull and start through envcheck side by side with docker pull and docker run: the same image, the same registry, the
same engine, the same container.

    python -m benchmarks.pull [--mib 1024] [--rounds 3]        needs root and what tests/system-packages.sh installs

The goals: at most 1.05 times docker, with less than 150 MiB of memory whatever the image's size.  Both begin with an
engine that has nothing of the image; a round times each once, in turns which is first.  `docker_run_s` and
`envcheck_start_s` are the parts of the start: envcheck's holds the wait that shows that the container does not end at
once.  What envcheck adds does not grow with the image, so that a small one shows it and a real one of 15 GB does not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.installers.images import image_parts
from tests.installers.images.engine_parts import DockerEngine, find_engine_obstacle, start_engine, start_registry

ROOT = Path(__file__).parent.parent
GOAL, GOAL_MIB, LAYERS = 1.05, 150, 8
NAME, COMMAND = "envcheck-benchmark", ("sleep", "3600")
OURS = """
import atexit, contextlib, gc, json, re, sys, time
gc.set_threshold(50_000)  # this and the next as envcheck.cli.main does it
atexit.register(gc.freeze)
from installers.output.plan_text import ProgressScreen
from installers.containers import lifecycle
from installers.recipes.container_spec import ContainerSpec
from installers.images import docker_engine, local_image, pull, reference, registry
seen = docker_engine.inspect_engine()
with contextlib.closing(docker_engine.open_client(seen)) as client, ProgressScreen() as screen:
    wanted = [reference.parse_reference(sys.argv[1])]
    found = registry.resolve_image(wanted, seen, local_image.registry_credentials(client))
    assert local_image.find_resolved(client, found) is None and local_image.check_space(found, seen) is None
    pull.pull_image(client, found, screen.show_event)
    pulled = time.monotonic()
    spec = ContainerSpec(sys.argv[2], str(found.pinned_reference), recipe="benchmark", command=tuple(sys.argv[3:]))
    lifecycle.ensure_running(client.api, spec)
with open("/proc/self/status") as status:  # ru_maxrss begins with the memory of whoever started us
    mib = int(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1]) >> 10
print(json.dumps([mib, time.monotonic() - pulled]))
"""


def main() -> int:
    """Measure and print; 1 when a goal was missed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--mib", type=int, default=1024)
    asked.add_argument("--rounds", type=int, default=3)
    options = asked.parse_args()
    if why := find_engine_obstacle():
        print(why)
        return 2
    with start_registry() as registry, start_engine() as engine:
        name = f"{registry.address}/benchmark:1"
        layers = image_parts.make_random_layers(LAYERS, (options.mib << 20) // LAYERS)
        image_parts.push_image(name, [image_parts.make_busybox(), *layers])
        del layers
        return report_times(rounds(engine, name, options.rounds))


@dataclass(frozen=True)
class Measured:
    """Seconds of pull and start, of them the start's alone, and MiB; `memory_mib` of docker's own is not looked at."""

    seconds: float
    start_s: float
    memory_mib: int = 0


def rounds(engine: DockerEngine, name: str, count: int) -> tuple[list[Measured], list[Measured]]:
    """Of docker, and of envcheck."""
    ways: tuple[Callable[[DockerEngine, str], Measured], ...] = (by_docker, by_envcheck)
    measured: tuple[list[Measured], list[Measured]] = ([], [])
    by_docker(engine, name)  # the registry's files are in memory from now on
    cleared(engine)
    for number in range(count):
        for way in (0, 1) if number % 2 else (1, 0):
            os.sync()
            measured[way].append(ways[way](engine, name))
            cleared(engine)
    return measured


def cleared(engine: DockerEngine) -> None:
    engine.run_docker("rm", "--force", NAME)
    engine.run_docker("image", "prune", "--all", "--force")


def by_docker(engine: DockerEngine, name: str) -> Measured:
    began = time.monotonic()
    engine.run_docker("pull", "--quiet", name)
    pulled = time.monotonic()
    engine.run_docker("run", "--detach", "--tty", "--interactive", "--name", NAME, name, *COMMAND)
    return Measured(time.monotonic() - began, time.monotonic() - pulled)


def by_envcheck(engine: DockerEngine, name: str) -> Measured:
    argv, began = [sys.executable, "-c", OURS, name, NAME, *COMMAND], time.monotonic()
    done = subprocess.run(argv, cwd=ROOT, env=engine.child_environment, capture_output=True, text=True, check=True)
    memory_mib, start_s = json.loads(done.stdout)
    return Measured(time.monotonic() - began, start_s, memory_mib)


def report_times(measured: tuple[list[Measured], list[Measured]]) -> int:
    docker, own = measured
    docker_s, own_s = ([each.seconds for each in way] for way in measured)
    ratio, memory_mib = min(own_s) / min(docker_s), max(each.memory_mib for each in own)  # neighbours only ever add
    figures = {
        "docker_s": [round(s, 2) for s in docker_s],
        "envcheck_s": [round(s, 2) for s in own_s],
        "docker_run_s": [round(each.start_s, 2) for each in docker],
        "envcheck_start_s": [round(each.start_s, 2) for each in own],
        "ratio": round(ratio, 3),
        "median_ratio": round(statistics.median(own_s) / statistics.median(docker_s), 3),
        "memory_mib": memory_mib,
    }
    print(json.dumps(figures))
    return 0 if ratio <= GOAL and memory_mib < GOAL_MIB else 1


if __name__ == "__main__":
    raise SystemExit(main())
