"""Machine descriptions: TOML files by name, from envcheck's folder or the user's own."""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path

from envcheck.core import suggestions, toml_file
from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join
from envcheck.core.simulate.machine import SimulatedChip, SimulatedDevices, SimulatedSystem
from envcheck.simulate.machine_rules import check_machine

OWN = Path(__file__).parent / "machines"
SIZE_LIMIT = 64 << 10  # bytes; envcheck's own have 3 KB


def list_machines(folder: Path | None = None) -> dict[str, Path]:
    """Return the files by machine name; the user's own folder takes precedence."""
    found = {path.stem: path for path in toml_file.list_files(OWN)}
    if folder is not None:
        if not folder.is_dir():
            raise UsageError(
                _("{folder}: not a directory", folder=folder), _("pass --machines a directory with NAME.toml files")
            )
        found |= {path.stem: path for path in toml_file.list_files(folder)}
    return found


def load_machine(name: str, folder: Path | None = None) -> SimulatedSystem:
    """Return the machine of that name.  UsageError if it does not exist or its file is invalid."""
    known = list_machines(folder)
    matched = suggestions.match_name(name, known)
    if matched is None:
        raise UsageError(
            _("unknown machine {name!r:.60}", name=name),
            suggestions.suggest(name, known, more=_("choose one of {known}", known=join(", ", known))),
        )
    return parse_machine(toml_file.read_text(known[matched], SIZE_LIMIT, _("machine")), matched, str(known[matched]))


def parse_machine(text: str, name: str, file: str) -> SimulatedSystem:
    """Return the machine that `text` describes; `file` is its name in messages."""
    table = toml_file.parse_table(text, file, _("run `envcheck simulate --list` to see valid machines"))
    machine = dataclasses.replace(toml_file.load_record(SimulatedSystem, table, file), name=name)
    check_machine(machine, file)
    return dataclasses.replace(machine, chips=tuple(_make_chips(machine)))


def _make_chips(machine: SimulatedSystem) -> list[SimulatedChip]:
    """Return one chip per bus id, with slightly different temperature and power, as on real machines."""
    if machine.devices is None:
        return []
    make = machine.devices
    return [
        SimulatedChip(
            index=n,
            card=n // make.chips_per_card,
            die=n % make.chips_per_card,
            bus_id=bus_id,
            uuid=f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{n}.{machine.name}.envcheck.invalid')}",
            serial=f"{1025 + n * 7919:08d}{n:03d}",
            temperature_c=make.temperature_c + n * 7 % 4,
            power_w=_compute_power_w(make, n),
            memory_used_mib=make.idle_mib,
        )
        for n, bus_id in enumerate(make.bus_ids)
    ]


def _compute_power_w(make: SimulatedDevices, n: int) -> float | None:
    if make.power_on_chip is not None and n % make.chips_per_card != make.power_on_chip:
        return None
    return round(make.power_w + n * 37 % 91 / 10, 1)
