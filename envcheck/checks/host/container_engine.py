"""Checks of the container engine: reachable, recent, with the vendor's runtime and disk space for images."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, machine_check, vendor_check
from envcheck.core.derived.engine_answers import DOCKER_INFO, get_reachable_engine
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    fail,
    format_bytes,
    is_in_container,
    ok,
    quote_answer,
    quote_values,
    report_missing_rule,
    report_unanswered,
    skip,
    skipped_because,
    unknown,
    vendor_commands,
    warn,
    warn_or_fail,
)
from envcheck.core.messages import _, join, mark, verbatim
from envcheck.core.model import Finding, Outcome, Status, diagnose, fix
from envcheck.settings.thresholds import threshold_bytes
from envcheck.vendors import VENDORS

VERSION_FLOOR = "20.10.10"  # older seccomp profiles reject clone3, which glibc 2.34 uses: moby/moby#42681


def check_reachable(facts: Facts) -> Iterator[Finding]:
    """The container engine answers this user."""
    image, engine = facts.wanted and facts.wanted.image, facts.engine
    answer = facts.answers.get(DOCKER_INFO)
    if answer is None or answer.err == "not in the recording":
        yield unknown(_("docker was not queried"))
    elif engine is None and is_in_container(facts):
        yield skip(_("envcheck runs inside a container"))
    elif engine is None:
        words = _(
            "Install Docker: the vendors document training in container images only. Training on the host works "
            "without it."
        )
        grade = Status.FAIL if image else Status.WARN
        missing = warn_or_fail(
            grade, _("docker not found"), fix(words, _docker_command(facts)), evidence=quote_answer(answer)
        )
        yield missing if image or facts.vendors else skip(_("docker not found; CPU jobs do not need it"))
    elif engine.error is None:
        yield ok(_("docker {version}", version=engine.version))
    elif answer.outcome is Outcome.HUNG:
        yield unknown(
            verbatim(engine.error),
            diagnose(_("Check the docker service."), "systemctl status docker"),
            evidence=quote_answer(answer)[:1],
        )
    elif image or facts.vendors:
        words = _("Start the docker service, or add this user to the docker group.")
        commands = ("sudo systemctl start docker", "sudo usermod -aG docker $USER")
        shown = quote_answer(answer, *engine.error.split()[:3])
        yield warn_or_fail(
            Status.FAIL if image else Status.WARN, verbatim(engine.error), fix(words, *commands), evidence=shown
        )
    else:
        yield skip(_("not needed for CPU jobs: {error}", error=engine.error))


def check_version(facts: Facts) -> Iterator[Finding]:
    """The engine is new enough for current images."""
    engine = get_reachable_engine(facts)
    reached = versions.is_at_least(engine.version, VERSION_FLOOR) if engine and engine.version else None
    if engine is None:
        yield skipped_because("engine.reachable")
    elif reached is None:
        yield unknown(_("docker {version}: unknown version format", version=engine.version))
    elif reached:
        yield ok(_("docker {version}", version=engine.version))
    else:
        words = _(
            "Upgrade Docker, or run containers with --security-opt seccomp=unconfined: newer "
            "images cannot start threads on this version."
        )
        shown = quote_values("docker info", ServerVersion=engine.version)
        yield fail(
            _("docker {version} is older than {version_floor}", version=engine.version, version_floor=VERSION_FLOOR),
            fix(words, _docker_command(facts, "--only-upgrade", "upgrade")),
            evidence=shown,
        )


def check_runtime(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The container runtime of the vendor is registered; it adds devices and driver to containers."""
    engine, name = get_reachable_engine(facts), v.vendor.runtime
    if engine is None:
        yield skipped_because("engine.reachable")
    elif name is None:
        yield report_missing_rule(v, _("container runtime"))
    elif not engine.runtimes:
        yield unknown(_("docker does not report its runtimes"))
    elif name in engine.runtimes:
        yield ok(_("runtime {name}", name=name))
    else:
        words = _(
            "Install the vendor's container runtime, or pass each {node_pattern} with --device and mount the driver.",
            node_pattern=v.vendor.node_pattern,
        )
        seen = _(
            "container runtime {name} not found; docker has {runtimes}", name=name, runtimes=join(", ", engine.runtimes)
        )
        shown = quote_values("docker info", Runtimes=", ".join(engine.runtimes))
        setup = vendor_commands(v, "runtime")
        remedy = fix(words, *setup) if setup else diagnose(words, "cat /etc/docker/daemon.json")
        yield warn(seen, remedy, evidence=shown)


def check_default_runtime(facts: Facts) -> Iterator[Finding]:
    """Docker's default runtime is not that of a vendor without devices in this host: it would start no container."""
    engine, present = get_reachable_engine(facts), {v.name for v in facts.vendors}
    if engine is None:
        yield skipped_because("engine.reachable")
    elif engine.default_runtime is None:
        yield unknown(_("docker does not report its default runtime"))
    elif others := [v for v in VENDORS.values() if v.runtime == engine.default_runtime and v.name not in present]:
        seen = _(
            "the default runtime is {name}, but this host has no {title} devices",
            name=engine.default_runtime,
            title=others[0].title,
        )
        words = _("Set the default runtime to runc and restart Docker, or start containers with --runtime runc.")
        shown = quote_values("docker info", DefaultRuntime=engine.default_runtime)
        yield warn(seen, diagnose(words, "cat /etc/docker/daemon.json"), evidence=shown)
    else:
        yield ok(_("default runtime {name}", name=engine.default_runtime))


def check_disk(facts: Facts) -> Iterator[Finding]:
    """The engine's disk has room for an image."""
    engine = get_reachable_engine(facts)
    if engine is None:
        yield skipped_because("engine.reachable")
        return
    root = engine_root_folder(facts)
    place = find_nearest_disk(facts, root)
    free = (facts.disks or {})[place].free_bytes if place else None
    if facts.disks is None or free is None:
        yield report_unanswered(facts, "ask disks")
    elif free < threshold_bytes(facts, "engine.disk.warn_gib") and facts.vendors:
        wanted = bool(facts.wanted and facts.wanted.image)
        grade = Status.FAIL if free < threshold_bytes(facts, "engine.disk.fail_gib") and wanted else Status.WARN
        words = _("Free disk space: a vendor image takes about 40 GB, and 2.5 times that while it is unpacked.")
        shown = quote_values(f"statvfs {root}", free_bytes=free)
        needed = format_bytes(threshold_bytes(facts, f"engine.disk.{'fail' if grade is Status.FAIL else 'warn'}_gib"))
        seen = _("{free} free in {root} (minimum {needed})", free=format_bytes(free), root=root, needed=needed)
        yield warn_or_fail(grade, seen, fix(words, "docker image prune", "docker system df"), evidence=shown)
    else:
        yield ok(_("{free} free in {root}", free=format_bytes(free), root=root))


def _docker_command(facts: Facts, apt_option: str = "", dnf_verb: str = "install") -> str:
    """The command of the host's package manager that installs or upgrades Docker."""
    name = (facts.host and facts.host.os) or ""
    if re.search("Debian|Ubuntu", name):
        return " ".join(filter(None, ("sudo apt-get install", apt_option, "docker.io")))
    return f"sudo dnf {dnf_verb} docker"


def engine_root_folder(facts: Facts) -> str:
    """Return the folder in which the engine stores images."""
    return (facts.engine and facts.engine.root_dir) or "/var/lib/docker"


def find_nearest_disk(facts: Facts, path: str) -> str | None:
    """Return the nearest parent folder whose free space is known."""
    above = [p for p in facts.disks or {} if p.startswith("/") and (path + "/").startswith(p.rstrip("/") + "/")]
    return max(above, key=len, default=None)


CHECKS: tuple[Check, ...] = (
    machine_check(
        "engine.reachable",
        check_reachable,
        reads="docker info",
        source=mark("Docker manual"),
        rule="FAIL for a job that needs an image, WARN on a host with devices, otherwise NOT_APPLICABLE",
        fix="Install or start the engine, or join its group.",
    ),
    machine_check(
        "engine.version",
        check_version,
        reads="docker info",
        source="moby#42681, OpenSandbox#508",
        rule="FAIL if older than 20.10.10",
        fix="Upgrade the engine, or set seccomp=unconfined.",
    ),
    vendor_check(
        "engine.runtime",
        check_runtime,
        reads="docker info",
        source="mind-cluster gitcode#356, ix-container-toolkit",
        rule="WARN if not registered",
        fix="Install it, or pass device nodes and driver explicitly.",
    ),
    machine_check(
        "engine.default_runtime",
        check_default_runtime,
        reads="docker info",
        source="FastDeploy#2660",
        rule="WARN if it is the runtime of a vendor without devices in this host",
        fix="Set the default runtime to runc.",
    ),
    machine_check(
        "engine.disk",
        check_disk,
        reads="docker info, disks",
        source=mark("PaddleOCR-VL guide for Iluvatar: images of 37 to 39 GB"),
        rule="WARN below engine.disk.warn_gib; FAIL below engine.disk.fail_gib for a job that needs an image",
        fix="Prune images, or move the engine's data directory.",
    ),
)
