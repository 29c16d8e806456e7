"""Writes the folder: bin/ (executables), answers/ (what they print), root/ (files) and ask/ (the host's own values)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from envcheck.core.simulate.machine import Machine
from envcheck.core.simulate.reply import Program, Reply
from envcheck.core.simulate.vendor_simulation import VendorSimulation
from envcheck.simulate import docker, lspci
from envcheck.simulate.files import files
from envcheck.simulate.host import collectors
from envcheck.simulate.script import answers, script
from envcheck.simulate.vendor_simulations import load_simulations


def programs(machine: Machine, simulation: VendorSimulation, now: float) -> tuple[Program, ...]:
    """The executables that this machine has."""
    tools = list(simulation.programs(machine, now))
    if tools:  # the first is the one that a fault stops
        tools[:1] = [] if machine.tool.missing else [_broken(tools[0], machine)]
    engine = [docker.program(machine, machine.docker)] if machine.docker else []
    return (*tools, lspci.program(machine), *engine)


def build(machine: Machine, folder: Path, now: float) -> None:
    """Into an empty folder; `now` is what its clocks show, in seconds since 1970."""
    simulation = load_simulations()[machine.vendor]
    for name in ("bin", "root", "ask", "answers"):
        (folder / name).mkdir()
    for program in programs(machine, simulation, now):
        executable = folder / "bin" / program.name
        executable.write_text(script(program), encoding="utf-8")
        executable.chmod(0o755)
        _write(folder / "answers" / program.name, answers(program))
    _write(folder / "root", files(machine, simulation))
    told = collectors(machine, simulation, now)
    _write(folder / "ask", {f"{name}.json": json.dumps(values, indent=1) for name, values in told.items()})


def _write(base: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        path = base / PurePosixPath(name.lstrip("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _broken(program: Program, machine: Machine) -> Program:
    """The tool with what is wrong with it; one that fails on every query knows no other answer."""
    tool = machine.tool
    if tool.failure:
        program = replace(program, replies={}, columns={}, otherwise=(("", tool.failure),))
    if tool.truncated:
        cut = {name: _cut(program.replies[name], machine) for name in program.listings if name in program.replies}
        program = replace(program, replies={**program.replies, **cut}, truncated=True)
    return replace(program, hang_s=tool.hang_s)


def _cut(reply: Reply, machine: Machine) -> Reply:
    """In the middle of the last device's bus id: its row is begun and not ended."""
    last = reply.out.rfind(machine.listed[-1].bus_id) if machine.listed else -1
    return reply if last < 0 else replace(reply, out=reply.out[: last + 6])
