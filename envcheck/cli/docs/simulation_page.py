"""reference/simulated-machines.md: the machines and faults of `envcheck simulate`."""

from __future__ import annotations

from envcheck.cli.docs.markdown_table import NOTE, cell, code, table
from envcheck.simulate import machine_file
from envcheck.simulate.faults import find_vendors, load_faults

TAIL = """\
An index counts devices as the vendor's tool lists them on the machine without faults; on A3 it is the Phy-ID.

## Limits

* Nothing is computed on a simulated machine: no device node can be opened, and `docker` starts nothing.
* Only envcheck sees the simulated files (`/usr/local/Ascend`, `/dev/davinci0`, `/proc`); other programs see the
  vendors' tools on `PATH`.
* `ixsmi -q` and `ixsmi -x` give no answer, because no public output shows their layout. `--query-gpu` takes no `-i`.
* The matrix of `ixsmi topo -m`, the exit statuses of `npu-smi` and the message for a machine that lost its only
  device are guesses.
"""


def page() -> str:
    """Return the page."""
    lines = [NOTE, "", "# Simulated machines", ""]
    lines += ["[The tutorial](../tutorial.md) shows how to use them; the options of `envcheck simulate` are in"]
    lines += ["[Commands and options](commands.md#envcheck-simulate).", "", "## Machines", ""]
    machines = [machine_file.load_machine(name) for name in machine_file.list_machines()]
    lines += table(("name", "what it is"), [(code(machine.name), cell(machine.title)) for machine in machines])
    lines += ["", "## Faults", "", "`--fault NAME` or `--fault NAME=VALUE`; repeat it for several faults.", ""]
    rows = []
    for name, fault in load_faults().items():
        spelt = f"{name}[={fault.means}]" if fault.value else name
        rows.append((code(spelt), cell(fault.summary), ", ".join(sorted(find_vendors(name, fault)))))
    lines += table(("fault", "effect", "devices"), rows)
    return "\n".join([*lines, "", TAIL])
