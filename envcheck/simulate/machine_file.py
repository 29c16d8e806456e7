"""Machine files: TOML → Machine, by name from our folder or the user's own."""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from envcheck.core.simulate.machine import Chip, Devices, Machine
from envcheck.simulate.machine_rules import check

OWN = Path(__file__).parent / "machines"
SIZE_LIMIT = 64 << 10  # bytes; ours have 3 KB


def names(folder: Path | None = None) -> dict[str, Path]:
    """Machines by name; those of the user's own folder win."""
    found = {path.stem: path for path in sorted(OWN.glob("*.toml"))}
    if folder is not None:
        if not folder.is_dir():
            raise UsageError(f"{folder}: not a folder", "give --machines a folder with NAME.toml files")
        found |= {path.stem: path for path in sorted(folder.glob("*.toml"))}
    return found


def load(name: str, folder: Path | None = None) -> Machine:
    """The machine of that name; UsageError when there is none, or when its file is not one."""
    known = names(folder)
    if name not in known:
        raise UsageError(f"there is no machine {name!r:.60}", f"choose one of {', '.join(known)}")
    return parse(toml_file.text(known[name], SIZE_LIMIT, "machine"), name, str(known[name]))


def parse(text: str, name: str, file: str) -> Machine:
    """The machine that `text` describes; `file` only names it in sentences."""
    table = toml_file.table(text, file, "compare with docs/simulate.md")
    machine = dataclasses.replace(toml_file.load_record(Machine, table, file), name=name)
    check(machine, file)
    return dataclasses.replace(machine, chips=tuple(_chips(machine)))


def _chips(machine: Machine) -> list[Chip]:
    """One chip for each bus id, warmed and powered a little differently, as no two real ones read alike."""
    if machine.devices is None:
        return []
    make = machine.devices
    return [
        Chip(
            index=n,
            card=n // make.chips_per_card,
            die=n % make.chips_per_card,
            bus_id=bus_id,
            uuid=f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{n}.{machine.name}.envcheck.invalid')}",
            serial=f"{1025 + n * 7919:08d}{n:03d}",
            temperature_c=make.temperature_c + n * 7 % 4,
            power_w=_power(make, n),
            memory_used_mib=make.idle_mib,
        )
        for n, bus_id in enumerate(make.bus_ids)
    ]


def _power(make: Devices, n: int) -> float | None:
    if make.power_on_chip is not None and n % make.chips_per_card != make.power_on_chip:
        return None
    return round(make.power_w + n * 37 % 91 / 10, 1)
