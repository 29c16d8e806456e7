"""docker info and version, enough to see that the engine answers and which runtimes it has."""

from __future__ import annotations

import json

from envcheck.collect.questions import IMAGES
from envcheck.core.simulate.machine import Docker, Machine
from envcheck.core.simulate.reply import Program, Reply
from envcheck.core.units import GIB


def program(machine: Machine, engine: Docker) -> Program:
    refusal = Reply(err="docker: this simulated engine answers info and --version, and starts nothing\n", status=1)
    replies = {
        "info --format {{json .}}": Reply(json.dumps(_info(machine, engine)) + "\n"),
        "--version": Reply(f"Docker version {engine.version}, build 0000000\n"),
        " ".join(IMAGES.what[1:]): Reply(""),
        "info --format {{.DockerRootDir}}": Reply("/var/lib/docker\n"),
    }
    return Program("docker", replies, (("", refusal),))


def _info(machine: Machine, engine: Docker) -> dict[str, object]:
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
