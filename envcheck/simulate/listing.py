"""Output of `envcheck simulate --list`, as text and JSON."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from envcheck.collect.host.answers import SYSROOT
from envcheck.core.language import translate
from envcheck.core.language.width import display_width
from envcheck.core.messages import _, join
from envcheck.core.version import SCHEMA_VERSION
from envcheck.simulate import machine_file as described
from envcheck.simulate.faults import find_vendors, list_applicable_faults, load_faults


def as_text(folder: Path | None) -> str:
    """Return machines and faults as text."""
    known = described.list_machines(folder)
    width = max(map(len, known))
    lines = [
        translate(_("Machines:")),
        *(f"  {name:<{width}}  {translate(described.load_machine(name, folder).title)}" for name in known),
        "",
        translate(_("Faults:")),
    ]
    for name, fault in load_faults().items():
        spelt = f"{name}[={translate(fault.means)}]" if fault.value else name
        vendors = join(", ", sorted(find_vendors(name, fault)))
        said = translate(_("{summary} ({vendors})", summary=fault.summary, vendors=vendors))
        lines.append(f"  {spelt}{' ' * (44 - display_width(spelt))}  {said}")
    return "\n".join(lines)


def as_json(folder: Path | None) -> str:
    """Return machines and faults as JSON."""
    machines = [described.load_machine(name, folder) for name in described.list_machines(folder)]
    return json.dumps(
        {
            "schema": SCHEMA_VERSION,
            "machines": [
                {
                    "name": m.name,
                    "title": m.title,
                    "vendor": m.vendor,
                    "devices": len(m.chips),
                    "faults": list_applicable_faults(m),
                }
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
    """Return two shell lines that select the simulated machine."""
    return f"export PATH={shlex.quote(str(folder / 'bin'))}:$PATH\nexport {SYSROOT}={shlex.quote(str(folder))}"
