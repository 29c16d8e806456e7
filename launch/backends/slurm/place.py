"""Where in the site a component of a job goes: which partition, and how many of which cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from envcheck.core.errors import UsageError
from envcheck.vendors import VENDORS
from launch.backends.slurm.site import PartitionRow, needed, of_device
from launch.catalogue.schedulers import slurm_names


@dataclass(frozen=True)
class ComponentPlacement:
    """`partition` "" leaves it to Slurm, `gres` "" asks for no cards; `note` is what a person should know.

    `is_gres_said`: a person chose it; not `fits`: no partition has enough of such cards, by whatever name.
    """

    partition: str = ""
    gres: str = ""
    note: str = ""
    is_gres_said: bool = False
    fits: bool = True


def place(
    rows: Sequence[PartitionRow] | None, device: str, nodes: int, cards: int, partition: str, gres: str
) -> ComponentPlacement:
    """`partition` and `gres` are what a person said, or ""; rows None: there is nobody to ask.

    UsageError where only a person can choose: which partition, or what an unknown name of cards means."""
    if gres:
        said = gres if gres.rpartition(":")[2].isdecimal() else f"{gres}:{cards}"
        return ComponentPlacement(partition, said, is_gres_said=True)
    usual = f"{slurm_names(device).gres}:{cards}" if slurm_names(device).gres else ""
    if rows is None:
        note = "no sinfo answers here: partition and --gres are guesses; --gres NAME:N says what the site has"
        return ComponentPlacement(partition, usual, note)
    if partition and partition not in (known := {row.partition for row in rows}):
        raise UsageError(f"there is no partition {partition!r}", f"sinfo has {', '.join(sorted(known))}")
    if usual and not any(row.cards for row in rows):
        return ComponentPlacement(partition, "", "Slurm counts no cards here: the job gets whole nodes, without --gres")
    open_to = [row for row in rows if partition in ("", row.partition)]
    found = _fitting(open_to, device, nodes, cards)
    if not found and (_are_unknown(rows) or _fitting([replace(row, up=True) for row in open_to], device, nodes, cards)):
        raise UsageError(_lacking(rows, device, nodes, cards, partition), "say --partition and --gres, or ask less")
    if not found:
        return ComponentPlacement(partition, usual, fits=False)
    if len(found) > 1:
        raise UsageError(f"{len(found)} partitions could take it", f"say which: --partition {' or '.join(found)}")
    (name, asked), *_ = found.items()
    return ComponentPlacement(partition or ("" if _usual(rows, name) else name), asked)


def _fitting(rows: Sequence[PartitionRow], device: str, nodes: int, cards: int) -> dict[str, str]:
    """Partition → what to ask of its nodes; the site's default one alone where it will do."""
    found: dict[tuple[str, str], int] = {}
    for row in rows:
        for asked in _asked(row, device, cards) if row.up else ():
            found[row.partition, asked] = found.get((row.partition, asked), 0) + row.nodes
    enough = {partition: asked for (partition, asked), count in found.items() if count >= nodes}
    usual = {partition: asked for partition, asked in enough.items() if _usual(rows, partition)}
    return usual or enough


def _are_unknown(rows: Sequence[PartitionRow]) -> bool:
    """The site counts something, and no vendor's words are in its name."""
    cards = [one for row in rows for one in row.cards]
    return bool(cards) and not any(of_device(cards, device) for device in VENDORS)


def _asked(row: PartitionRow, device: str, cards: int) -> tuple[str, ...]:
    if device == "cpu":
        return ("",)
    counts = ((one, needed(one, device, cards)) for one in of_device(row.cards, device))
    return tuple(one.asked(count) for one, count in counts if count is not None)


def _usual(rows: Sequence[PartitionRow], partition: str) -> bool:
    return any(row.usual for row in rows if row.partition == partition)


def _lacking(rows: Sequence[PartitionRow], device: str, nodes: int, cards: int, partition: str) -> str:
    """What there is, so that a person sees what is missing."""
    there = [
        f"{row.partition}: {row.nodes} x {', '.join(one.asked(one.count) for one in row.cards) or 'no cards'}"
        f"{'' if row.up else ', closed'}"
        for row in rows
        if partition in ("", row.partition)
    ]
    what = f"{nodes} node{'s' * (nodes > 1)}" + ("" if device == "cpu" else f" of {cards} cards ({device})")
    return f"no partition has {what}; {'; '.join(there[:8])}"
