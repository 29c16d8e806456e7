"""nvidia-smi nvlink --status: the links of each GPU, as many as its word in the topology has (NV18)."""

from __future__ import annotations

import re

from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.core.simulate.reply import ProgramReply
from envcheck.core.simulate.topology import find_relation

_SPEEDS = {12: "25.000", 18: "26.562"}  # GB/s of one link: A100; H100 and H200
_INACTIVE = "NVML: Unable to retrieve Nvlink information as all links are inActive"
_MIG = "Nvlink queries are not supported for Devices in MIG mode"


def make_nvlink_reply(machine: SimulatedSystem) -> ProgramReply:
    """Return the answer; GPUs without NVLink have no lines of links."""
    assert machine.devices is not None and machine.links is not None
    found = re.fullmatch(r"NV(\d+)", machine.links.inside)
    count = int(found[1]) if found else 0
    lines = []
    for n, chip in enumerate(machine.listed_chips):
        others = [other for other in machine.chips if other.index != chip.index]
        works = any(find_relation(machine, chip, other) == machine.links.inside for other in others)
        links = [f"\t Link {link}: {_SPEEDS.get(count, '25.000')} GB/s" for link in range(count)]
        lines.append(f"GPU {n}: {machine.devices.name} (UUID: {chip.uuid})")
        lines += [_MIG] if machine.mig else links if works or not count else [_INACTIVE]
    return ProgramReply("".join(f"{line}\n" for line in lines))
