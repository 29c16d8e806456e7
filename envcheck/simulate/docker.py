"""Simulated docker info and version: the engine responds and lists its runtimes."""

from __future__ import annotations

import json

from envcheck.collect.questions import IMAGES
from envcheck.core.simulate.machine import SimulatedDocker, SimulatedSystem
from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram
from envcheck.core.units import GIB


def make_program(machine: SimulatedSystem, engine: SimulatedDocker) -> SimulatedProgram:
    """Return the docker executable."""
    refusal = ProgramReply(
        err="docker: this simulated engine answers info and --version, and starts nothing\n", status=1
    )
    replies = {
        "info --format {{json .}}": ProgramReply(json.dumps(_make_info(machine, engine)) + "\n"),
        "--version": ProgramReply(f"Docker version {engine.version}, build 0000000\n"),
        " ".join(IMAGES.what[1:]): ProgramReply(""),
        "info --format {{.DockerRootDir}}": ProgramReply("/var/lib/docker\n"),
    }
    return SimulatedProgram("docker", replies, (("", refusal),))


def _make_info(machine: SimulatedSystem, engine: SimulatedDocker) -> dict[str, object]:
    host = machine.host
    runtimes = {name: {"path": "runc" if name == "runc" else f"{name}-runtime"} for name in ("runc", *engine.runtimes)}
    return {
        "ID": "00000000-0000-0000-0000-000000000000",
        "Containers": 2,
        "ContainersRunning": 0,
        "Images": 3,
        "Driver": "overlay2",
        "LoggingDriver": "json-file",
        "CgroupDriver": "systemd",
        "CgroupVersion": "2",
        "KernelVersion": host.kernel,
        "OperatingSystem": host.os,
        "OSType": "linux",
        "Architecture": host.architecture,
        "NCPU": host.cpus,
        "MemTotal": host.memory_gib * GIB,
        "DockerRootDir": "/var/lib/docker",
        "Name": host.hostname,
        "ServerVersion": engine.version,
        "Runtimes": runtimes,
        "DefaultRuntime": engine.default_runtime,
        "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"],
        "Warnings": None,
    }
