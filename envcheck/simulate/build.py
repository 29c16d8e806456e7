"""Write the folder of a simulated machine: bin/ (executables), answers/ (their output), root/ (files), ask/ (host
facts).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram
from envcheck.core.simulate.vendor_simulation import VendorSimulation
from envcheck.simulate import docker, lspci
from envcheck.simulate.collector_answers import answer_collectors
from envcheck.simulate.file_tree import make_files
from envcheck.simulate.tool_script import render_answers, render_script
from envcheck.simulate.vendor_simulations import load_simulations


def make_programs(machine: SimulatedSystem, simulation: VendorSimulation, now: float) -> tuple[SimulatedProgram, ...]:
    """Return the executables of this machine."""
    tools = list(simulation.programs(machine, now))
    if tools:  # faults concern the first tool
        tools[:1] = [] if machine.tool.missing else [_break_tool(tools[0], machine)]
    tools = [replace(tool, name=name) for tool in tools for name in (tool.name, *tool.aliases)]
    engine = [docker.make_program(machine, machine.docker)] if machine.docker else []
    return (*tools, lspci.make_program(machine), *engine)


def write_simulation(machine: SimulatedSystem, folder: Path, now: float) -> None:
    """Write the machine into an empty folder; `now` is the time on its clocks, in seconds since 1970."""
    simulation = load_simulations()[machine.vendor]
    for name in ("bin", "root", "ask", "answers"):
        (folder / name).mkdir()
    for program in make_programs(machine, simulation, now):
        executable = folder / "bin" / program.name
        executable.write_text(render_script(program), encoding="utf-8")
        executable.chmod(0o755)
        _write_texts(folder / "answers" / program.name, render_answers(program))
    _write_texts(folder / "root", make_files(machine, simulation))
    told = answer_collectors(machine, simulation, now)
    _write_texts(folder / "ask", {f"{name}.json": json.dumps(values, indent=1) for name, values in told.items()})


def _write_texts(base: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        path = base / PurePosixPath(name.lstrip("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _break_tool(program: SimulatedProgram, machine: SimulatedSystem) -> SimulatedProgram:
    """Return the tool with its faults; one that fails on every query has no other answer."""
    tool = machine.tool
    if tool.failure:
        program = replace(program, replies={}, columns={}, otherwise=(("", tool.failure),))
    if tool.truncated:
        cut = {
            name: _truncate_reply(program.replies[name], machine)
            for name in program.listings
            if name in program.replies
        }
        program = replace(program, replies={**program.replies, **cut}, truncated=True)
    return replace(program, hang_s=tool.hang_s)


def _truncate_reply(reply: ProgramReply, machine: SimulatedSystem) -> ProgramReply:
    """Cut the reply in the middle of the last device's bus id, so that its row is incomplete."""
    last = reply.out.rfind(machine.listed_chips[-1].bus_id) if machine.listed_chips else -1
    return reply if last < 0 else replace(reply, out=reply.out[: last + 6])
