"""The container engine: there, new enough, with the vendor's runtime, and room for images."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, of_machine, of_vendor
from envcheck.core.derived.engine import DOCKER_INFO, reached_engine
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    fail,
    figures,
    follows,
    gib,
    graded,
    in_container,
    no_rule,
    not_told,
    ok,
    quote,
    skip,
    unknown,
    warn,
)
from envcheck.core.model import Finding, Outcome, Status
from envcheck.settings.thresholds import limit_bytes

VERSION_FLOOR = "20.10.10"  # older seccomp profiles refuse clone3, which glibc 2.34 starts threads with (F43)


def reachable(facts: Facts) -> Iterator[Finding]:
    """The engine answers this user."""
    image, engine = facts.wanted and facts.wanted.image, facts.engine
    answer = facts.answers.get(DOCKER_INFO)
    if answer is None or answer.err == "not in the recording":
        yield unknown("docker was not asked")
    elif engine is None and in_container(facts):
        yield skip("this is a container itself")
    elif engine is None:
        words = "Install Docker, or train on the host: the documented set-ups are images."
        grade = Status.FAIL if image else Status.WARN
        missing = graded(grade, "docker is not there", words, _install(facts), evidence=quote(answer))
        yield missing if image or facts.vendors else skip("docker is not there, and a CPU run needs none")
    elif engine.error is None:
        yield ok(f"docker {engine.version}")
    elif answer.outcome is Outcome.HUNG:
        yield unknown(engine.error, "Look at its service.", "systemctl status docker", evidence=quote(answer)[:1])
    elif image or facts.vendors:
        words = "Start its service, or give this user the right to it."
        fix = ("sudo systemctl start docker", "sudo usermod -aG docker $USER")
        shown = quote(answer, *engine.error.split()[:3])
        yield graded(Status.FAIL if image else Status.WARN, engine.error, words, *fix, evidence=shown)
    else:
        yield skip(f"{engine.error}; a CPU run needs none")


def version(facts: Facts) -> Iterator[Finding]:
    """The engine is new enough for today's images."""
    engine = reached_engine(facts)
    reached = versions.at_least(engine.version, VERSION_FLOOR) if engine and engine.version else None
    if engine is None:
        yield follows("engine.reachable")
    elif reached is None:
        yield unknown(f"docker {engine.version}: not a version that envcheck can order")
    elif reached:
        yield ok(f"docker {engine.version}")
    else:
        words = "Upgrade it, or run with --security-opt seccomp=unconfined: threads cannot start in newer images."
        shown = figures("docker info", ServerVersion=engine.version)
        yield fail(f"docker {engine.version} is older than {VERSION_FLOOR}", words, "docker version", evidence=shown)


def runtime(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The vendor's runtime is registered: it puts devices and driver into containers."""
    engine, name = reached_engine(facts), v.vendor.runtime
    if engine is None:
        yield follows("engine.reachable")
    elif name is None:
        yield no_rule(v, "container runtime")
    elif not engine.runtimes:
        yield unknown("docker does not tell its runtimes")
    elif name in engine.runtimes:
        yield ok(f"runtime {name}")
    else:
        words = f"Install it, or pass each {v.vendor.node_pattern} with --device and mount the driver by hand."
        seen = f"no runtime {name}, only {', '.join(engine.runtimes)}"
        shown = figures("docker info", Runtimes=", ".join(engine.runtimes))
        yield warn(seen, words, "cat /etc/docker/daemon.json", evidence=shown)


def disk(facts: Facts) -> Iterator[Finding]:
    """There is room for an image where the engine keeps them."""
    engine = reached_engine(facts)
    if engine is None:
        yield follows("engine.reachable")
        return
    root = root_folder(facts)
    place = nearest_disk(facts, root)
    free = (facts.disks or {})[place].free_bytes if place else None
    if facts.disks is None or free is None:
        yield not_told(facts, "ask disks")
    elif free < limit_bytes(facts, "engine.disk.warn_gib") and facts.vendors:
        wanted = bool(facts.wanted and facts.wanted.image)
        grade = Status.FAIL if free < limit_bytes(facts, "engine.disk.fail_gib") and wanted else Status.WARN
        words = "Free some: the vendors' images take some 40 GB, and 2.5 times that while unpacking."
        shown = figures(f"statvfs {root}", free_bytes=free)
        needed = gib(limit_bytes(facts, f"engine.disk.{'fail' if grade is Status.FAIL else 'warn'}_gib"))
        seen = f"{gib(free)} free in {root} (limit {needed})"
        yield graded(grade, seen, words, "docker system df", "docker image prune", evidence=shown)
    else:
        yield ok(f"{gib(free)} free in {root}")


def _install(facts: Facts) -> str:
    name = (facts.host and facts.host.os) or ""
    return "sudo apt-get install docker.io" if re.search("Debian|Ubuntu", name) else "sudo dnf install docker"


def root_folder(facts: Facts) -> str:
    """Where the engine keeps images."""
    return (facts.engine and facts.engine.root_dir) or "/var/lib/docker"


def nearest_disk(facts: Facts, path: str) -> str | None:
    """The nearest path above that was looked at."""
    above = [p for p in facts.disks or {} if p.startswith("/") and (path + "/").startswith(p.rstrip("/") + "/")]
    return max(above, key=len, default=None)


CHECKS: tuple[Check, ...] = (
    of_machine(
        "engine.reachable",
        reachable,
        reads="docker info",
        source="Docker's manual",
        rule="FAIL for a job that wants an image, WARN where cards are, else NOT_APPLICABLE",
        fix="Install or start it, join its group.",
    ),
    of_machine(
        "engine.version",
        version,
        reads="docker info",
        source="moby#42681, OpenSandbox#508",
        rule="FAIL below 20.10.10",
        fix="Upgrade it, or seccomp=unconfined.",
    ),
    of_vendor(
        "engine.runtime",
        runtime,
        reads="docker info",
        source="mind-cluster gitcode#356, ix-container-toolkit",
        rule="WARN when it is not registered",
        fix="Install it, or pass nodes and driver by hand.",
    ),
    of_machine(
        "engine.disk",
        disk,
        reads="docker info, disks",
        source="PaddleOCR-VL's Iluvatar page: 37 to 39 GB images",
        rule="WARN below engine.disk.warn_gib; FAIL below engine.disk.fail_gib for a job that wants an image",
        fix="Prune, or move the engine's folder.",
    ),
)
