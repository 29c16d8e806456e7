"""The links between the devices as the page draws them: kinds of link, a matrix, and a graph by NUMA node."""

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
DOT, PAD, GAP, HEAD, BOX, BEND = 15, 16, 56, 40, 136, 0.16  # of the graph, in its own units
FEW = 3  # links, from which on the usual one goes without saying


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
    """`within` and `between` are the usual links inside groups and from group to group, kind and text, which no line
    shows: lines are where links differ from them."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    within: tuple[tuple[str, str], ...]
    between: tuple[tuple[str, str], ...]


def kind(relation: str | None) -> str:
    return next((one for pattern, one in KINDS if re.fullmatch(pattern, relation or "")), "untold")


def names(topology: Topology) -> list[str]:
    return list(topology.names[:DEVICES_LIMIT])


def matrix(topology: Topology) -> tuple[list[tuple[str, str]], list[tuple[str, list[Cell]]]]:
    """The columns' names, whole and short, and the rows: devices, and as columns the network cards that are named."""
    columns = [*names(topology), *topology.nics[:DEVICES_LIMIT]]
    rows = [(safe(row), [_cell(topology, row, column) for column in columns]) for row in names(topology)]
    heads = [(safe(one), _short(one)) for one in names(topology)]
    return [*heads, *((safe(one), safe(one)) for one in topology.nics[:DEVICES_LIMIT])], rows


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
        return Dot(safe(name), _short(name), x, y, state.get(name, "not_applicable"), name in slower)

    boxes = _boxes(groups, dot)
    members = [name for _, some in groups for name in some]
    places = dict(zip(members, (dot for box in boxes for dot in box.dots), strict=True))
    home = {name: n for n, (_, some) in enumerate(groups) for name in some}
    usual = _usual(topology, shown, home)
    differing = [(a, b) for a, b in combinations(shown, 2) if _relation(topology, a, b) != usual.get(_pair(home, a, b))]
    lines = (*_between(topology, groups, boxes), *_differing(topology, differing, places, home))
    arcs = [(places[a], places[b]) for a, b in differing if home[a] != home[b]]
    lowest = max((max(a.y, b.y) + abs(b.x - a.x) * BEND / 2 for a, b in arcs), default=0)
    width, height = max(b.x + b.width for b in boxes) + 2, max(lowest, *(b.y + b.height for b in boxes)) + 2
    within, between = (_named(u for (a, b), u in usual.items() if (a == b) is inside) for inside in (True, False))
    return Graph(round(width), round(height), boxes, lines, within, between)


def _usual(topology: Topology, shown: list[str], home: dict[str, int]) -> dict[tuple[int, int], str | None]:
    """The most common relation inside each group, and from each group to each other; where these have few links, that
    of all that are inside, or between, groups.  None of a few links in all, which are drawn."""
    found: dict[tuple[int, int], Counter[str | None]] = {}
    scopes: dict[bool, Counter[str | None]] = {True: Counter(), False: Counter()}
    for a, b in combinations(shown, 2):
        pair, relation = _pair(home, a, b), _relation(topology, a, b)
        found.setdefault(pair, Counter())[relation] += 1
        scopes[pair[0] == pair[1]][relation] += 1
    counted = {pair: some if some.total() >= FEW else scopes[pair[0] == pair[1]] for pair, some in found.items()}
    return {pair: some.most_common(1)[0][0] for pair, some in counted.items() if some.total() >= FEW}


def _pair(home: dict[str, int], a: str, b: str) -> tuple[int, int]:
    return min(home[a], home[b]), max(home[a], home[b])


def _named(relations: Iterable[str | None]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({(kind(one), safe(one)) for one in relations if one and kind(one) != "untold"}))


def _groups(topology: Topology, shown: list[str]) -> Groups:
    """In the order of the nodes."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in shown:
        key = ((topology.numa_affinity or {}).get(name) or "", (topology.cpu_affinity or {}).get(name) or "")
        found.setdefault(key, []).append(name)
    return sorted(found.items(), key=lambda pair: [int(n) for n in re.findall(r"\d{1,9}", " ".join(pair[0]))])


def _slower(topology: Topology, shown: list[str]) -> set[str]:
    """Devices with less than half the fast links that most have: their peers miss but one each."""
    fast = {a: sum(kind(_relation(topology, a, b)) in FAST for b in shown if b != a) for a in shown}
    usual = Counter(fast.values()).most_common(1)[0][0] if fast else 0
    return {name for name, n in fast.items() if 2 * n < usual}


def _short(name: str) -> str:
    """NPU12, GPU12 and Phy-ID12 as 12."""
    found = re.search(r"(\d{1,3})$", name)
    return found[1] if found else safe(name)[:3]


def _boxes(groups: Groups, dot: Callable[[str, float, float], Dot]) -> tuple[Box, ...]:
    """In rows, all of one size; that of the largest ring, and no narrower than their words."""
    reach = [_reach(len(members)) for _, members in groups]
    width = max(BOX, 2 * (max(x for x, _ in reach) + DOT + PAD))
    height = 2 * (max(y for _, y in reach) + DOT + PAD)
    columns = len(groups) if len(groups) <= 3 else math.ceil(len(groups) / 2) if len(groups) <= 8 else 4
    boxes = []
    for i, ((node, near), members) in enumerate(groups):
        x, y = 1 + (i % columns) * (width + GAP), 1 + (i // columns) * (height + HEAD + GAP)
        middle = (x + width / 2, y + HEAD + height / 2)
        dots = tuple(dot(name, *_on_ring(middle, n, len(members))) for n, name in enumerate(members))
        boxes.append(Box(safe(node), safe(near), round(x), round(y), round(width), round(height + HEAD), dots))
    return tuple(boxes)


def _radius(count: int) -> float:
    """Of a ring on which so many dots stand apart from each other."""
    return 0 if count == 1 else max(28, 1.55 * DOT * 2 * count / math.tau)


def _reach(count: int) -> tuple[float, float]:
    """How far a ring's dots lie from its middle, to the side and up or down."""
    points = [_on_ring((0, 0), n, count) for n in range(count)]
    return max(abs(x) for x, _ in points), max(abs(y) for _, y in points)


def _on_ring(middle: tuple[float, float], n: int, count: int) -> tuple[float, float]:
    """Clockwise; two lie side by side."""
    turn, radius = math.tau * ((n - 0.5) / count - 0.25), _radius(count)
    return round(middle[0] + radius * math.cos(turn), 1), round(middle[1] + radius * math.sin(turn), 1)


def _differing(
    topology: Topology, pairs: Iterable[tuple[str, str]], places: dict[str, Dot], home: dict[str, int]
) -> list[Line]:
    """A path for each kind of link, slowest first, so that the faster are drawn above."""
    paths: dict[str, list[str]] = {}
    for a, b in pairs:
        one = kind(_relation(topology, a, b))
        paths.setdefault(one, []).append(_stroke(places[a], places[b], home[a] != home[b]))
    return [Line(one, "".join(paths[one])) for one in ("untold", *reversed([k for _, k in KINDS])) if one in paths]


def _stroke(a: Dot, b: Dot, bent: bool) -> str:
    """Straight inside a box; bent between boxes, where dots of one row would hide it."""
    if not bent:
        return f"M{a.x:g} {a.y:g}L{b.x:g} {b.y:g}"
    if (a.x, a.y) > (b.x, b.y):
        a, b = b, a
    # Downwards, since the words of a box stand at its top.
    x, y = (a.x + b.x) / 2 - (b.y - a.y) * BEND, (a.y + b.y) / 2 + (b.x - a.x) * BEND
    return f"M{a.x:g} {a.y:g}Q{x:.0f} {y:.0f} {b.x:g} {b.y:g}"


def _between(topology: Topology, groups: Groups, boxes: Sequence[Box]) -> list[Line]:
    """A line between neighbours that slow links alone join, with the most common of them; where all stand in a row."""
    lines = []
    for (_, ours), (_, theirs), left, right in zip(groups, groups[1:], boxes, boxes[1:], strict=False):
        relations = Counter(_relation(topology, a, b) for a in ours for b in theirs)
        common = relations.most_common(1)[0][0]
        slow = not any(kind(relation) in (*FAST, "untold") for relation in relations)
        if slow and left.y == right.y and len(groups) <= 3:
            (ax, ay), (bx, by) = _middle(left), _middle(right)
            word, here = safe(common or "")[:6], ((ax + bx) / 2, (ay + by) / 2)
            lines.append(Line(kind(common), f"M{ax:g} {ay:g}L{bx:g} {by:g}", word, here))
    return lines


def _middle(box: Box) -> tuple[float, float]:
    return box.x + box.width / 2, box.y + (box.height + HEAD) / 2
