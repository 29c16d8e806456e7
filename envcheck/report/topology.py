"""The links between devices on the HTML page: kinds of link, a matrix, and a graph by NUMA node."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from envcheck.core.model import Topology
from envcheck.report.summary import safe

DEVICES_LIMIT = 64
# Printed relation → kind, from the legends of `nvidia-smi topo -m` and `npu-smi info -t topo`.
KINDS: tuple[tuple[str, str], ...] = (
    (r"SIO", "package"),
    (r"HCCS\w*|NV\d+|LNK\d*|IX\d+", "fabric"),
    (r"PIX|PXB", "switch"),
    (r"PHB|NODE", "bridge"),
    (r"SYS|SOC", "sys"),
)
FAST = ("package", "fabric", "switch")
Groups = list[tuple[tuple[str, str], list[str]]]  # ((NUMA node, CPUs near it), devices)
DOT, PAD, GAP, HEAD, BOX, BEND = 15, 16, 56, 40, 136, 0.16  # of the graph, in its units
FEW = 3  # number of links above which the usual one is not drawn


@dataclass(frozen=True)
class MatrixCell:
    """One relation: `text` as printed, `kind` its meaning; "self" on the diagonal."""

    text: str
    kind: str


@dataclass(frozen=True)
class DeviceDot:
    """A device in the graph; `short` is the number in its name, which fits into the circle."""

    name: str
    short: str
    x: float
    y: float
    state: str
    slower: bool


@dataclass(frozen=True)
class DeviceBox:
    """Devices near the same CPUs, whose list is `near`; `node` is the NUMA node, empty if unknown."""

    node: str
    near: str
    x: float
    y: float
    width: float
    height: float
    dots: tuple[DeviceDot, ...]


@dataclass(frozen=True)
class LinkLine:
    """Links of one kind as one path; `label` is placed at `at` if there is space."""

    kind: str
    path: str
    label: str = ""
    at: tuple[float, float] = (0, 0)


@dataclass(frozen=True)
class TopologyGraph:
    """The graph: lines show only unusual links.

    `within` and `between` are the kind and text of the usual links inside groups and from group to group.
    """

    width: float
    height: float
    boxes: tuple[DeviceBox, ...]
    lines: tuple[LinkLine, ...]
    within: tuple[tuple[str, str], ...]
    between: tuple[tuple[str, str], ...]


def classify_link(relation: str | None) -> str:
    """Return the kind of a link as the tools print it; untold if unknown."""
    return next((one for pattern, one in KINDS if re.fullmatch(pattern, relation or "")), "untold")


def list_devices(topology: Topology) -> list[str]:
    """Return the names of the devices that the page shows, at most DEVICES_LIMIT."""
    return list(topology.names[:DEVICES_LIMIT])


def build_matrix(topology: Topology) -> tuple[list[tuple[str, str]], list[tuple[str, list[MatrixCell]]]]:
    """Return the column names, long and short, and the rows; named network cards are further columns."""
    columns = [*list_devices(topology), *topology.nics[:DEVICES_LIMIT]]
    rows = [(safe(row), [_build_cell(topology, row, column) for column in columns]) for row in list_devices(topology)]
    heads = [(safe(one), _shorten_name(one)) for one in list_devices(topology)]
    return [*heads, *((safe(one), safe(one)) for one in topology.nics[:DEVICES_LIMIT])], rows


def _build_cell(topology: Topology, row: str, column: str) -> MatrixCell:
    if row == column:
        return MatrixCell("", "self")
    relation = _find_relation(topology, row, column)
    return MatrixCell(safe(relation or "?")[:12], classify_link(relation))


def _find_relation(topology: Topology, row: str, column: str) -> str | None:
    return (topology.matrix.get(row) or {}).get(column)


def build_graph(topology: Topology, states: Sequence[str]) -> TopologyGraph:
    """Return the graph; `states` are those of the devices in the order of the topology, empty if the lists differ."""
    shown = list_devices(topology)
    groups = _group_devices(topology, shown)
    slower = _find_slow_devices(topology, shown)
    state = dict(zip(shown, states, strict=False))

    def dot(name: str, x: float, y: float) -> DeviceDot:
        return DeviceDot(safe(name), _shorten_name(name), x, y, state.get(name, "not_applicable"), name in slower)

    boxes = _place_boxes(groups, dot)
    members = [name for _unused, some in groups for name in some]
    places = dict(zip(members, (dot for box in boxes for dot in box.dots), strict=True))
    home = {name: n for n, (_unused, some) in enumerate(groups) for name in some}
    usual = _find_usual_relations(topology, shown, home)
    differing = [
        (a, b)
        for a, b in combinations(shown, 2)
        if _find_relation(topology, a, b) != usual.get(_order_pair(home, a, b))
    ]
    lines = (*_draw_group_links(topology, groups, boxes), *_draw_differing_links(topology, differing, places, home))
    arcs = [(places[a], places[b]) for a, b in differing if home[a] != home[b]]
    lowest = max((max(a.y, b.y) + abs(b.x - a.x) * BEND / 2 for a, b in arcs), default=0)
    width, height = max(b.x + b.width for b in boxes) + 2, max(lowest, *(b.y + b.height for b in boxes)) + 2
    within, between = (
        _name_relations(u for (a, b), u in usual.items() if (a == b) is inside) for inside in (True, False)
    )
    return TopologyGraph(round(width), round(height), boxes, lines, within, between)


def _find_usual_relations(
    topology: Topology, shown: list[str], home: dict[str, int]
) -> dict[tuple[int, int], str | None]:
    """The most common relation inside each group, and from each group to each other.

    For groups with few links, that of all links inside, or between, groups.  None if there are few links in all: then
    each is drawn.
    """
    found: dict[tuple[int, int], Counter[str | None]] = {}
    scopes: dict[bool, Counter[str | None]] = {True: Counter(), False: Counter()}
    for a, b in combinations(shown, 2):
        pair, relation = _order_pair(home, a, b), _find_relation(topology, a, b)
        found.setdefault(pair, Counter())[relation] += 1
        scopes[pair[0] == pair[1]][relation] += 1
    counted = {pair: some if some.total() >= FEW else scopes[pair[0] == pair[1]] for pair, some in found.items()}
    return {pair: some.most_common(1)[0][0] for pair, some in counted.items() if some.total() >= FEW}


def _order_pair(home: dict[str, int], a: str, b: str) -> tuple[int, int]:
    return min(home[a], home[b]), max(home[a], home[b])


def _name_relations(relations: Iterable[str | None]) -> tuple[tuple[str, str], ...]:
    return tuple(
        sorted({(classify_link(one), safe(one)) for one in relations if one and classify_link(one) != "untold"})
    )


def _group_devices(topology: Topology, shown: list[str]) -> Groups:
    """Groups in the order of the NUMA nodes."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in shown:
        key = ((topology.numa_affinity or {}).get(name) or "", (topology.cpu_affinity or {}).get(name) or "")
        found.setdefault(key, []).append(name)
    return sorted(found.items(), key=lambda pair: [int(n) for n in re.findall(r"\d{1,9}", " ".join(pair[0]))])


def _find_slow_devices(topology: Topology, shown: list[str]) -> set[str]:
    """Devices with less than half the fast links of most devices: their peers lack only one link each."""
    fast = {a: sum(classify_link(_find_relation(topology, a, b)) in FAST for b in shown if b != a) for a in shown}
    usual = Counter(fast.values()).most_common(1)[0][0] if fast else 0
    return {name for name, n in fast.items() if 2 * n < usual}


def _shorten_name(name: str) -> str:
    """NPU12, GPU12 and Phy-ID12 as 12."""
    found = re.search(r"(\d{1,3})$", name)
    return found[1] if found else safe(name)[:3]


def _place_boxes(groups: Groups, dot: Callable[[str, float, float], DeviceDot]) -> tuple[DeviceBox, ...]:
    """Boxes in rows, all as large as the largest ring requires and no narrower than their labels."""
    reach = [_measure_ring(len(members)) for _unused, members in groups]
    width = max(BOX, 2 * (max(x for x, _unused in reach) + DOT + PAD))
    height = 2 * (max(y for _unused, y in reach) + DOT + PAD)
    columns = len(groups) if len(groups) <= 3 else math.ceil(len(groups) / 2) if len(groups) <= 8 else 4
    boxes = []
    for i, ((node, near), members) in enumerate(groups):
        x, y = 1 + (i % columns) * (width + GAP), 1 + (i // columns) * (height + HEAD + GAP)
        middle = (x + width / 2, y + HEAD + height / 2)
        dots = tuple(dot(name, *_place_on_ring(middle, n, len(members))) for n, name in enumerate(members))
        boxes.append(DeviceBox(safe(node), safe(near), round(x), round(y), round(width), round(height + HEAD), dots))
    return tuple(boxes)


def _compute_radius(count: int) -> float:
    """The radius of a ring on which this many dots do not overlap."""
    return 0 if count == 1 else max(28, 1.55 * DOT * 2 * count / math.tau)


def _measure_ring(count: int) -> tuple[float, float]:
    """The distance of a ring's dots from its centre, horizontally and vertically."""
    points = [_place_on_ring((0, 0), n, count) for n in range(count)]
    return max(abs(x) for x, _unused in points), max(abs(y) for _unused, y in points)


def _place_on_ring(middle: tuple[float, float], n: int, count: int) -> tuple[float, float]:
    """Positions clockwise; two dots are placed side by side."""
    turn, radius = math.tau * ((n - 0.5) / count - 0.25), _compute_radius(count)
    return round(middle[0] + radius * math.cos(turn), 1), round(middle[1] + radius * math.sin(turn), 1)


def _draw_differing_links(
    topology: Topology, pairs: Iterable[tuple[str, str]], places: dict[str, DeviceDot], home: dict[str, int]
) -> list[LinkLine]:
    """One path per kind of link, slowest first, so that faster links are drawn on top."""
    paths: dict[str, list[str]] = {}
    for a, b in pairs:
        one = classify_link(_find_relation(topology, a, b))
        paths.setdefault(one, []).append(_draw_stroke(places[a], places[b], home[a] != home[b]))
    return [
        LinkLine(one, "".join(paths[one])) for one in ("untold", *reversed([k for _unused, k in KINDS])) if one in paths
    ]


def _draw_stroke(a: DeviceDot, b: DeviceDot, bent: bool) -> str:
    """Straight inside a box; curved between boxes, where dots in the same row would hide it."""
    if not bent:
        return f"M{a.x:g} {a.y:g}L{b.x:g} {b.y:g}"
    if (a.x, a.y) > (b.x, b.y):
        a, b = b, a
    # Downwards, because the label of a box is at its top.
    x, y = (a.x + b.x) / 2 - (b.y - a.y) * BEND, (a.y + b.y) / 2 + (b.x - a.x) * BEND
    return f"M{a.x:g} {a.y:g}Q{x:.0f} {y:.0f} {b.x:g} {b.y:g}"


def _draw_group_links(topology: Topology, groups: Groups, boxes: Sequence[DeviceBox]) -> list[LinkLine]:
    """A line between neighbouring groups joined only by slow links, labelled with the most common kind, if all are in
    one row.
    """
    lines = []
    for (_unused, ours), (_unused, theirs), left, right in zip(groups, groups[1:], boxes, boxes[1:], strict=False):
        relations = Counter(_find_relation(topology, a, b) for a in ours for b in theirs)
        common = relations.most_common(1)[0][0]
        slow = not any(classify_link(relation) in (*FAST, "untold") for relation in relations)
        if slow and left.y == right.y and len(groups) <= 3:
            (ax, ay), (bx, by) = _find_middle(left), _find_middle(right)
            word, here = safe(common or "")[:6], ((ax + bx) / 2, (ay + by) / 2)
            lines.append(LinkLine(classify_link(common), f"M{ax:g} {ay:g}L{bx:g} {by:g}", word, here))
    return lines


def _find_middle(box: DeviceBox) -> tuple[float, float]:
    return box.x + box.width / 2, box.y + (box.height + HEAD) / 2
