"""Do the nodes that met belong together?  Plain functions of their greetings; the odd one is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from envcheck.core.model import Finding, Remedy, Status
from launch.rendezvous.hello import Hello

SKEW_S = 0.5  # HCCL's and NCCL's limits are minutes; certificates, logs and checkpoints' times suffer from less
Greetings = Sequence[Hello]


def judge(met: Greetings) -> tuple[Finding, ...]:
    """One finding for each question, in the order of the table."""
    return tuple(question(met) for question in QUESTIONS)


def ranks(met: Greetings) -> Finding:
    """Every number once, from 0; who has none gets one."""
    wanted = met[0].nodes
    given = Counter(g.rank for g in met if g.rank is not None)
    twice = [rank for rank, times in given.items() if times > 1]
    beyond = [rank for rank in given if not 0 <= rank < wanted]
    if twice:
        who = ", ".join(sorted(f"{g.host} ({g.address})" for g in met if g.rank == twice[0]))
        return _bad("nodes.ranks", f"rank {twice[0]} is taken by {who}", "Give each node its own number by --rank.")
    if beyond:
        return _bad("nodes.ranks", f"rank {beyond[0]} of {wanted} nodes", f"Ranks are 0 to {wanted - 1}.")
    return Finding("nodes.ranks", Status.OK, f"{len(met)} nodes, every rank once")


def count(met: Greetings) -> Finding:
    return _alike("nodes.count", "the number of nodes", lambda g: str(g.nodes), met, "Give the same --nnodes on each.")


def job(met: Greetings) -> Finding:
    """Of one role: on a mixed machine park each vendor's command is its own."""
    words = "Start the same command on each node: model, method, options, and the same envcheck."
    return _alike("nodes.job", "the command", lambda g: g.job[:12], met, words, by=lambda g: g.role)


def devices(met: Greetings) -> Finding:
    words = "Use nodes with as many cards, or --cards with what all have."
    return _alike("nodes.devices", "cards", lambda g: str(g.devices), met, words, by=_kind)


def packages(met: Greetings) -> Finding:
    """Two versions of a framework in one job disagree on the wire, late and with other words."""
    names = sorted({name for g in met for name in g.packages})
    found = [
        _alike("nodes.packages", name, lambda g, n=name: g.packages.get(n, "not installed"), met, "", by=_kind)  # type: ignore[misc]
        for name in names
    ]
    odd = [f for f in found if f.status is Status.FAIL]
    if not odd:
        return Finding("nodes.packages", Status.OK, f"{len(names)} packages alike")
    lines = tuple(f.seen for f in odd)
    return _bad("nodes.packages", odd[0].seen, "Provision the nodes by one lock: envcheck provision --locked.", lines)


def python(met: Greetings) -> Finding:
    return _alike("nodes.python", "Python", lambda g: g.python, met, "Use one image on all nodes.", by=_kind)


def driver(met: Greetings) -> Finding:
    words = "Nodes of one driver are the tested case: update the odd one."
    return _alike("nodes.driver", "driver", lambda g: g.driver, met, words, by=_kind, bad=Status.WARN)


def toolkit(met: Greetings) -> Finding:
    return _alike(
        "nodes.toolkit", "toolkit", lambda g: g.toolkit, met, "Use one image on all nodes.", _kind, Status.WARN
    )


def clock(met: Greetings) -> Finding:
    """Against node 0's."""
    off = [g for g in met if abs(g.skew_s) > SKEW_S]
    if not off:
        return Finding("nodes.clock", Status.OK, f"within {SKEW_S:g} s of node 0's")
    worst = max(off, key=lambda g: abs(g.skew_s))
    seen = f"the clock of {worst.title} is {abs(worst.skew_s):.1f} s {'ahead' if worst.skew_s > 0 else 'behind'}"
    return _bad("nodes.clock", seen, "Set the clocks by one source: chronyc makestep, or ntpdate.", bad=Status.WARN)


QUESTIONS: tuple[Callable[[Greetings], Finding], ...] = (
    ranks,
    count,
    job,
    devices,
    packages,
    python,
    driver,
    toolkit,
    clock,
)


def _kind(greeting: Hello) -> str:
    """Nodes of different vendors may differ."""
    return greeting.device


def _alike(
    name: str,
    what: str,
    of: Callable[[Hello], str],
    met: Greetings,
    words: str,
    by: Callable[[Hello], str] = lambda g: "",
    bad: Status = Status.FAIL,
) -> Finding:
    """The answers of each kind of node; what most say is taken for right, node 0's where none is more frequent."""
    groups: dict[str, list[Hello]] = {}
    for greeting in met:
        groups.setdefault(by(greeting), []).append(greeting)
    odd = [line for group in groups.values() for line in _odd(what, [(g, of(g)) for g in _ranked(group)])]
    if odd:
        return _bad(name, odd[0], words, tuple(odd), bad)
    return Finding(name, Status.OK, f"{what} alike on {len(met)} nodes")


def _ranked(group: Iterable[Hello]) -> list[Hello]:
    return sorted(group, key=lambda g: (g.rank is None, g.rank, g.address))


def _odd(what: str, answers: Sequence[tuple[Hello, str]]) -> list[str]:
    most, times = Counter(text for _, text in answers).most_common(1)[0]  # the first of equals
    others = "node 0" if times == 1 else f"{times} others"
    return [
        f"{what}: {text or 'unknown'} on {g.title}, {most or 'unknown'} on {others}"
        for g, text in answers
        if text != most
    ]


def _bad(name: str, seen: str, words: str, evidence: tuple[str, ...] = (), bad: Status = Status.FAIL) -> Finding:
    return Finding(name, bad, seen, Remedy(words), evidence)
