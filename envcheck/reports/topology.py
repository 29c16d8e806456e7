"""The links between the devices as the page draws them: kinds of link, a matrix, and a graph by NUMA node."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from envcheck.model import Topology
from envcheck.reports.judged import safe

DEVICES_LIMIT = 64
# What the tools print, by what it means: the legends below `nvidia-smi topo -m` and `npu-smi info -t topo`.
KINDS: tuple[tuple[str, str], ...] = (
    (r"SIO", "package"),
    (r"HCCS\w*|NV\d+|LNK\d*|IX\d+", "fabric"),
    (r"PIX|PXB", "switch"),
    (r"PHB|NODE", "bridge"),
    (r"SYS|SOC", "sys"),
)
FAST = ("package", "fabric", "switch")
Groups = list[tuple[tuple[str, str], list[str]]]  # ((NUMA node, CPUs near it), devices)
DOT, PAD, GAP, HEAD = 15, 16, 56, 40  # of the graph, in its own units


@dataclass(frozen=True)
class Cell:
    """One relation: `text` as printed, `kind` what it means; "self" on the diagonal."""

    text: str
    kind: str


@dataclass(frozen=True)
class Dot:
    """A device; `short` is its name's number, which has room in the circle."""

    name: str
    short: str
    x: float
    y: float
    state: str
    slower: bool


@dataclass(frozen=True)
class Box:
    """A group of devices near the same CPUs; `near` is their list, `node` the NUMA node, "" where that is not told."""

    node: str
    near: str
    x: float
    y: float
    width: float
    height: float
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class Line:
    """Links of one kind as one path; `label` stands at `at` where there is room for it."""

    kind: str
    path: str
    label: str = ""
    at: tuple[float, float] = (0, 0)


@dataclass(frozen=True)
class Graph:
    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


def kind(relation: str | None) -> str:
    return next((one for pattern, one in KINDS if re.fullmatch(pattern, relation or "")), "untold")


def names(topology: Topology) -> list[str]:
    return list(topology.names[:DEVICES_LIMIT])


def matrix(topology: Topology) -> tuple[list[str], list[tuple[str, list[Cell]]]]:
    """The columns' heads, and each row: devices, and after them the network cards that the tool names."""
    columns = [*names(topology), *topology.nics[:DEVICES_LIMIT]]
    rows = [(safe(row), [_cell(topology, row, column) for column in columns]) for row in names(topology)]
    return [safe(column) for column in columns], rows


def _cell(topology: Topology, row: str, column: str) -> Cell:
    if row == column:
        return Cell("", "self")
    relation = _relation(topology, row, column)
    return Cell(safe(relation or "?")[:12], kind(relation))


def _relation(topology: Topology, row: str, column: str) -> str | None:
    return (topology.matrix.get(row) or {}).get(column)


def graph(topology: Topology, states: Sequence[str]) -> Graph:
    """`states` are those of the devices in the topology's order, none where the two lists differ."""
    shown = names(topology)
    groups = _groups(topology, shown)
    slower = _slower(topology, shown)
    state = dict(zip(shown, states, strict=False))

    def dot(name: str, x: float, y: float) -> Dot:
        return Dot(safe(name), _short(name), x, y, state.get(name, "skip"), name in slower)

    boxes = _boxes(groups, dot)
    members = [name for _, some in groups for name in some]
    places = dict(zip(members, (dot for box in boxes for dot in box.dots), strict=True))
    width, height = max(b.x + b.width for b in boxes) + 2, max(b.y + b.height for b in boxes) + 2
    lines = (*_between(topology, groups, boxes), *_fast(topology, shown, places))
    return Graph(round(width), round(height), boxes, lines)


def _groups(topology: Topology, shown: list[str]) -> Groups:
    """In the order of the nodes."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in shown:
        key = ((topology.numa_affinity or {}).get(name) or "", (topology.cpu_affinity or {}).get(name) or "")
        found.setdefault(key, []).append(name)
    return sorted(found.items(), key=lambda pair: [int(n) for n in re.findall(r"\d{1,9}", " ".join(pair[0]))])


def _slower(topology: Topology, shown: list[str]) -> set[str]:
    """Devices with fewer fast links than most have."""
    fast = {a: sum(kind(_relation(topology, a, b)) in FAST for b in shown if b != a) for a in shown}
    usual = Counter(fast.values()).most_common(1)[0][0] if fast else 0
    return {name for name, n in fast.items() if n < usual}


def _short(name: str) -> str:
    """NPU12, GPU12 and Phy-ID12 as 12."""
    found = re.search(r"(\d{1,3})$", name)
    return found[1] if found else safe(name)[:3]


def _boxes(groups: Groups, dot: Callable[[str, float, float], Dot]) -> tuple[Box, ...]:
    radius = max(_radius(len(members)) for _, members in groups)
    side = 2 * (radius + DOT + PAD)
    columns = len(groups) if len(groups) <= 3 else math.ceil(len(groups) / 2) if len(groups) <= 8 else 4
    boxes = []
    for i, ((node, near), members) in enumerate(groups):
        x, y = 1 + (i % columns) * (side + GAP), 1 + (i // columns) * (side + HEAD + GAP)
        middle = (x + side / 2, y + HEAD + side / 2)
        dots = tuple(dot(name, *_on_ring(middle, n, len(members))) for n, name in enumerate(members))
        boxes.append(Box(safe(node), safe(near), round(x), round(y), round(side), round(side + HEAD), dots))
    return tuple(boxes)


def _radius(count: int) -> float:
    """Of a ring on which so many dots stand apart from each other."""
    return 0 if count == 1 else max(30, 1.55 * DOT * 2 * count / math.tau)


def _on_ring(middle: tuple[float, float], n: int, count: int) -> tuple[float, float]:
    turn, radius = math.tau * (n + 0.5) / count - math.tau / 4, _radius(count)
    return round(middle[0] + radius * math.cos(turn), 1), round(middle[1] + radius * math.sin(turn), 1)


def _fast(topology: Topology, shown: list[str], places: dict[str, Dot]) -> list[Line]:
    """A path for each kind of fast link, slowest first, so that the faster are drawn above."""
    paths: dict[str, list[str]] = {}
    for a, b in combinations(shown, 2):
        one = kind(_relation(topology, a, b))
        paths.setdefault(one, []).append(f"M{places[a].x:g} {places[a].y:g}L{places[b].x:g} {places[b].y:g}")
    return [Line(one, "".join(paths[one])) for one in ("untold", *reversed(FAST)) if one in paths]


def _between(topology: Topology, groups: Groups, boxes: Sequence[Box]) -> list[Line]:
    """One line for each two groups that slow links join: their most common kind, named where there is room."""
    lines = []
    for (i, (_, ours)), (j, (_, theirs)) in combinations(enumerate(groups), 2):
        relations = Counter(_relation(topology, a, b) for a in ours for b in theirs)
        common = relations.most_common(1)[0][0]
        if not any(kind(relation) in (*FAST, "untold") for relation in relations):
            (ax, ay), (bx, by) = _middle(boxes[i]), _middle(boxes[j])
            here = ((ax + bx) / 2, (ay + by) / 2)
            word = safe(common or "")[:8] if len(groups) <= 3 and j == i + 1 else ""
            lines.append(Line(kind(common), f"M{ax:g} {ay:g}L{bx:g} {by:g}", word, here))
    return lines


def _middle(box: Box) -> tuple[float, float]:
    return box.x + box.width / 2, box.y + (box.height + HEAD) / 2
