"""Check that the nodes of a job are consistent: pure functions of their facts; outliers are named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from envcheck.core.messages import NOTHING, Message, _, join, ngettext, verbatim
from envcheck.core.model import Finding, Status, manual
from launch.rendezvous.hello import Hello

SKEW_S = 0.5  # HCCL and NCCL tolerate minutes; certificates and the order of logs and checkpoints do not


def judge_nodes(nodes: Sequence[Hello]) -> tuple[Finding, ...]:
    """Return one finding per check, in the order of CHECKS."""
    return tuple(check(nodes) for check in CHECKS)


def check_ranks(nodes: Sequence[Hello]) -> Finding:
    """Check that each rank is given once and is below the number of nodes; nodes without a rank are ignored."""
    count = nodes[0].nodes
    given = Counter(g.rank for g in nodes if g.rank is not None)
    twice = [rank for rank, times in given.items() if times > 1]
    beyond = [rank for rank in given if not 0 <= rank < count]
    if twice:
        who = join(", ", sorted(f"{g.host} ({g.address})" for g in nodes if g.rank == twice[0]))
        return _build_finding(
            "nodes.ranks",
            _("rank {rank} is used by several nodes: {nodes}", rank=twice[0], nodes=who),
            _("Give each node its own rank with --rank."),
        )
    if beyond:
        return _build_finding(
            "nodes.ranks",
            _("rank {rank} is out of range for {count} nodes", rank=beyond[0], count=count),
            _("Use ranks 0 to {last} with --rank.", last=count - 1),
        )
    return Finding("nodes.ranks", Status.OK, _("{count} nodes with unique ranks", count=len(nodes)))


def check_node_count(nodes: Sequence[Hello]) -> Finding:
    """Check that all nodes have the same --nnodes."""
    return _compare_nodes(
        "nodes.count", _("number of nodes"), lambda g: str(g.nodes), nodes, _("Use the same --nnodes on all nodes.")
    )


def check_command(nodes: Sequence[Hello]) -> Finding:
    """Check that all nodes of a role run the same command; with mixed devices each role has its own."""
    words = _("Run the same command on all nodes: same model, method, options and envcheck version.")
    return _compare_nodes(
        "nodes.job", _("hash of the command"), lambda g: g.job[:12], nodes, words, by=lambda g: g.role
    )


def check_devices(nodes: Sequence[Hello]) -> Finding:
    """Check that all nodes of a vendor have the same number of devices."""
    words = _("Use nodes with the same number of devices, or set --cards-per-node to a number that all nodes have.")
    return _compare_nodes("nodes.devices", _("devices"), lambda g: str(g.devices), nodes, words, by=_device_kind)


def check_packages(nodes: Sequence[Hello]) -> Finding:
    """Check the versions of the recipe's packages: mixed framework versions fail late, with misleading errors."""
    names = sorted({name for g in nodes for name in g.packages})
    found = [
        _compare_nodes(
            "nodes.packages",
            verbatim(name),
            partial(_version, name),
            nodes,
            NOTHING,
            by=_device_kind,
        )
        for name in names
    ]
    odd = [f for f in found if f.status is Status.FAIL]
    if not odd:
        return Finding(
            "nodes.packages",
            Status.OK,
            ngettext("{count} package with the same version", "{count} packages with the same versions", len(names)),
        )
    lines = tuple(f.seen for f in odd)
    return _build_finding(
        "nodes.packages", odd[0].seen, _("Provision all nodes from one lock file: envcheck provision --locked."), lines
    )


def _version(package: str, node: Hello) -> str:
    return node.packages.get(package, _("not installed"))


def check_python(nodes: Sequence[Hello]) -> Finding:
    """Check that all nodes of a vendor have the same Python version."""
    return _compare_nodes(
        "nodes.python",
        verbatim("Python"),
        lambda g: g.python,
        nodes,
        _("Use the same image on all nodes."),
        by=_device_kind,
    )


def check_driver(nodes: Sequence[Hello]) -> Finding:
    """Warn if nodes of a vendor have different driver versions."""
    words = _("Install the same driver version on all nodes; mixed versions are untested.")
    return _compare_nodes(
        "nodes.driver", _("driver"), lambda g: g.driver, nodes, words, by=_device_kind, bad=Status.WARN
    )


def check_toolkit(nodes: Sequence[Hello]) -> Finding:
    """Warn if nodes of a vendor have different toolkit versions."""
    return _compare_nodes(
        "nodes.toolkit",
        _("toolkit"),
        lambda g: g.toolkit,
        nodes,
        _("Use the same image on all nodes."),
        _device_kind,
        Status.WARN,
    )


def check_clock(nodes: Sequence[Hello]) -> Finding:
    """Warn if the clock of a node differs from that of node 0 by more than SKEW_S."""
    off = [g for g in nodes if abs(g.skew_s) > SKEW_S]
    if not off:
        return Finding("nodes.clock", Status.OK, _("clocks differ by at most {skew_s:g} s from node 0", skew_s=SKEW_S))
    worst = max(off, key=lambda g: abs(g.skew_s))
    seen = (
        _("the clock of {node} is {skew_s:.1f} s ahead of node 0", node=worst.title, skew_s=worst.skew_s)
        if worst.skew_s > 0
        else _("the clock of {node} is {skew_s:.1f} s behind node 0", node=worst.title, skew_s=-worst.skew_s)
    )
    return _build_finding(
        "nodes.clock",
        seen,
        _("Synchronize the clocks with one time source: chronyc makestep, or ntpdate."),
        bad=Status.WARN,
    )


CHECKS: tuple[Callable[[Sequence[Hello]], Finding], ...] = (
    check_ranks,
    check_node_count,
    check_command,
    check_devices,
    check_packages,
    check_python,
    check_driver,
    check_toolkit,
    check_clock,
)


def _device_kind(node: Hello) -> str:
    """Return the key for checks whose result may differ between vendors."""
    return node.device


def _compare_nodes(
    name: str,
    what: Message,
    of: Callable[[Hello], str],
    nodes: Sequence[Hello],
    words: Message,
    by: Callable[[Hello], str] = lambda g: "",
    bad: Status = Status.FAIL,
) -> Finding:
    """Compare a value within each group of nodes (`by`). The most frequent value is expected; on a tie, that of the
    lowest rank."""
    groups: dict[str, list[Hello]] = {}
    for node in nodes:
        groups.setdefault(by(node), []).append(node)
    odd = [
        line for group in groups.values() for line in _find_outliers(what, [(g, of(g)) for g in _sort_by_rank(group)])
    ]
    if odd:
        return _build_finding(name, odd[0], words, tuple(odd), bad)
    return Finding(name, Status.OK, _("{what}: the same on {count} nodes", what=what, count=len(nodes)))


def _sort_by_rank(group: Iterable[Hello]) -> list[Hello]:
    return sorted(group, key=lambda g: (g.rank is None, g.rank, g.address))


def _find_outliers(what: Message, answers: Sequence[tuple[Hello, str]]) -> list[Message]:
    most, times = Counter(text for _unused, text in answers).most_common(1)[0]  # on a tie the first one
    first = next(node for node, text in answers if text == most)
    others = first.title if times == 1 else _("{count} other nodes", count=times)
    return [
        _(
            "{what}: {own} on {node}, {expected} on {others}",
            what=what,
            own=text or _("unknown"),
            node=node.title,
            expected=most or _("unknown"),
            others=others,
        )
        for node, text in answers
        if text != most
    ]


def _build_finding(
    name: str, seen: Message, words: Message, evidence: tuple[str, ...] = (), bad: Status = Status.FAIL
) -> Finding:
    return Finding(name, bad, seen, manual(words), evidence)
