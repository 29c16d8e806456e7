"""What `envcheck simulate --list` says, for people and for programs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from envcheck.collect.host.answers import SYSROOT
from envcheck.core.language import exact, label, say
from envcheck.core.language.width import columns
from envcheck.core.version import SCHEMA_VERSION
from envcheck.simulate import machine_file as described
from envcheck.simulate.faults import applicable, find_vendors, load_faults


def as_text(folder: Path | None) -> str:
    known = described.names(folder)
    width = max(map(len, known))
    lines = [
        say("Machines:"),
        *(f"  {name:<{width}}  {exact(described.load(name, folder).title)}" for name in known),
        "",
        say("Faults:"),
    ]
    for name, fault in load_faults().items():
        spelt = f"{name}[={label(fault.means)}]" if fault.value else name
        vendors = ", ".join(sorted(find_vendors(name, fault)))
        lines.append(f"  {spelt}{' ' * (44 - columns(spelt))}  {exact(fault.summary)} ({vendors})")
    return "\n".join(lines)


def as_json(folder: Path | None) -> str:
    machines = [described.load(name, folder) for name in described.names(folder)]
    return json.dumps(
        {
            "schema": SCHEMA_VERSION,
            "machines": [
                {"name": m.name, "title": m.title, "vendor": m.vendor, "devices": len(m.chips), "faults": applicable(m)}
                for m in machines
            ],
            "faults": [
                {
                    "name": name,
                    "summary": fault.summary,
                    "value": fault.value or None,
                    "vendors": sorted(find_vendors(name, fault)),
                }
                for name, fault in load_faults().items()
            ],
        },
        indent=2,
    )


def how_to_use(folder: Path) -> str:
    """Two lines to paste into a shell."""
    return f"export PATH={shlex.quote(str(folder / 'bin'))}:$PATH\nexport {SYSROOT}={shlex.quote(str(folder))}"
