"""Choose the partition and the GRES request of each component of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _, join, ngettext
from envcheck.vendors import VENDORS
from launch.backends.slurm.site import PartitionRow, count_cards_to_request, select_device_cards
from launch.catalogue.schedulers import slurm_names


@dataclass(frozen=True)
class ComponentPlacement:
    """`partition` "" leaves the choice to Slurm, `gres` "" requests no devices; `note` becomes a comment in the script.

    `is_gres_said`: from --gres; `fits` is False if no partition has enough devices of the kind.
    """

    partition: str = ""
    gres: str = ""
    note: str = ""
    is_gres_said: bool = False
    fits: bool = True


def choose_placement(
    rows: Sequence[PartitionRow] | None, device: str, nodes: int, cards: int, partition: str, gres: str
) -> ComponentPlacement:
    """Return where `nodes` nodes with `cards` devices each can run. `partition` and `gres` are options of the user, or
    ""; `rows` is None without sinfo.

    UsageError if only the user can decide: several partitions fit, or the GRES names are unknown."""
    if gres:
        request = gres if gres.rpartition(":")[2].isdecimal() else f"{gres}:{cards}"
        return ComponentPlacement(partition, request, is_gres_said=True)
    usual = f"{slurm_names(device).gres}:{cards}" if slurm_names(device).gres else ""
    if rows is None:
        note = "sinfo not found here; partition and --gres are assumed. Set them with --partition and --gres NAME:N"
        return ComponentPlacement(partition, usual, note)
    if partition and partition not in (known := {row.partition for row in rows}):
        raise UsageError(
            _("partition {partition!r} not found", partition=partition),
            _("choose one of {known}", known=join(", ", sorted(known))),
        )
    if usual and not any(row.cards for row in rows):
        note = "Slurm has no GRES for devices here; the job requests whole nodes without --gres"
        return ComponentPlacement(partition, "", note)
    open_to = [row for row in rows if partition in ("", row.partition)]
    found = _find_fitting_partitions(open_to, device, nodes, cards)
    if not found and (
        _are_cards_unknown(rows)
        or _find_fitting_partitions([replace(row, up=True) for row in open_to], device, nodes, cards)
    ):
        raise UsageError(
            _describe_shortage(rows, device, nodes, cards, partition),
            _("specify --partition and --gres, or request fewer nodes"),
        )
    if not found:
        return ComponentPlacement(partition, usual, fits=False)
    if len(found) > 1:
        raise UsageError(
            _("{count} partitions can run this job: {names}", count=len(found), names=join(", ", found)),
            _("choose one with --partition, for example --partition {name}", name=next(iter(found))),
        )
    (name, asked), *_unused = found.items()
    return ComponentPlacement(partition or ("" if _is_default_partition(rows, name) else name), asked)


def _find_fitting_partitions(rows: Sequence[PartitionRow], device: str, nodes: int, cards: int) -> dict[str, str]:
    """Return partition → GRES request for all with enough nodes; only the default partition if it is one of them."""
    found: dict[tuple[str, str], int] = {}
    for row in rows:
        for asked in _list_gres_requests(row, device, cards) if row.up else ():
            found[row.partition, asked] = found.get((row.partition, asked), 0) + row.nodes
    enough = {partition: asked for (partition, asked), count in found.items() if count >= nodes}
    usual = {partition: asked for partition, asked in enough.items() if _is_default_partition(rows, partition)}
    return usual or enough


def _are_cards_unknown(rows: Sequence[PartitionRow]) -> bool:
    """Whether the cluster has GRES entries, but none with a name of a known vendor."""
    cards = [one for row in rows for one in row.cards]
    return bool(cards) and not any(select_device_cards(cards, device) for device in VENDORS)


def _list_gres_requests(row: PartitionRow, device: str, cards: int) -> tuple[str, ...]:
    if device == "cpu":
        return ("",)
    counts = ((one, count_cards_to_request(one, device, cards)) for one in select_device_cards(row.cards, device))
    return tuple(one.format_gres(count) for one, count in counts if count is not None)


def _is_default_partition(rows: Sequence[PartitionRow], partition: str) -> bool:
    return any(row.usual for row in rows if row.partition == partition)


def _describe_shortage(rows: Sequence[PartitionRow], device: str, nodes: int, cards: int, partition: str) -> Message:
    """Return a message with the nodes and devices of each partition."""
    found = join("; ", [_describe_row(row) for row in rows if partition in ("", row.partition)][:8])
    if device == "cpu":
        return ngettext(
            "no partition has {count} node; found: {found}",
            "no partition has {count} nodes; found: {found}",
            nodes,
            found=found,
        )
    return ngettext(
        "no partition has {count} node with {cards} devices ({device}); found: {found}",
        "no partition has {count} nodes with {cards} devices ({device}); found: {found}",
        nodes,
        cards=cards,
        device=device,
        found=found,
    )


def _describe_row(row: PartitionRow) -> Message:
    gres = join(", ", (one.format_gres(one.count) for one in row.cards)) or _("no devices")
    if row.up:
        return _("{partition}: {nodes} x {gres}", partition=row.partition, nodes=row.nodes, gres=gres)
    return _("{partition} (down): {nodes} x {gres}", partition=row.partition, nodes=row.nodes, gres=gres)
