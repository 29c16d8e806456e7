"""The table of gates in docs/train.md: python -m envcheck.cli.docs_gates"""

from __future__ import annotations

from launch.gates import GATES
from launch.gates.waive import FIRM


def table() -> str:
    """A row for each gate, in the order in which they are walked; the promise is its docstring's first paragraph."""
    rows = ["| gate | open when | `--waive` |", "| --- | --- | --- |"]
    for name, gate in GATES.items():
        promise = " ".join((gate.__doc__ or "").partition("\n\n")[0].split())
        rows.append(f"| `gate.{name}` | {promise} | {'no' if name in FIRM else 'yes'} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table(), end="")
