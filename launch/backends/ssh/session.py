"""`envcheck train --hosts`: the gates of every node, then a launcher on each with its rank; one end for all.

On each host it is `envcheck train` as a person would start it there with --rank, --master and --nnodes, by the whole
of envcheck, which travels: gates, meeting of the nodes, watching, record and diagnosis are those of one node.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

import click

from envcheck.core import errors
from envcheck.core.errors import EnvcheckError
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import say as spoken
from envcheck.core.model import Finding, Status
from envcheck.core.version import SCHEMA_VERSION
from envcheck.fleet import runner
from envcheck.fleet.runner import Did
from envcheck.payload.content import Payload
from envcheck.payload.remote_command import Word
from envcheck.report.summary import exit_code, findings_outcome, safe
from installers.hosts.hosts_text import column
from installers.hosts.parse_plan import line_of
from launch.backends.node_findings import findings_values, print_findings
from launch.backends.ssh import node
from launch.backends.ssh.node import Node
from launch.run.run_text import say

LOOK_S = 300.0  # for the gates of a node: tools that hang have deadlines of their own
# After one node's bad end the others have so long to end by themselves, with words of their own; then they are ended.
OTHERS_S = (15.0, 18.0)
OF_A_TOOL = ("  |", "    $")  # how a node's line begins that quotes, or is to be pasted


@dataclass(frozen=True)
class NodesRequest:
    """`words` go to each host, `said` is how a person wrote them; `carried` are files that they name.

    `fanout` hosts are looked at, or begun, at once; those that have begun go on together.
    """

    hosts: tuple[str, ...]
    words: tuple[Word, ...]
    said: str
    carried: Payload | None = None
    master: str = ""
    runs: str = "runs"
    fanout: int = 64
    forget: bool = False
    as_json: bool = False
    gates: bool = False
    dry_run: bool = False

    def of(self, host: str) -> tuple[str, ...]:
        """What is said to this host besides; folders of their own, since hosts may share a file system."""
        rank, count = str(self.hosts.index(host)), str(len(self.hosts))
        return ("--nnodes", count, "--rank", rank, "--master", self.master, "--runs", f"{self.runs}/{host}")

    def order(self, *more: str, deadline_s: float | None = None, together: bool = False) -> runner.Order:
        words = {host: ("train", "--json", *more, *self.of(host), *self.words) for host in self.hosts}
        return runner.Order(words, self.carried, self.fanout, deadline_s, self.forget, together)


def train(asked: NodesRequest) -> int:
    asked = asked if asked.master else replace(asked, master=address(asked.hosts[0]))
    if asked.dry_run:
        for host in asked.hosts:
            click.echo(f"{host}: envcheck train {shlex.join(asked.of(host))} {asked.said}".rstrip())
        return errors.FIT
    stops = runner.Stops()
    found = {
        did.host: node.gates(did) for did in runner.do(asked.order("--gates", deadline_s=LOOK_S), _unheard, stops=stops)
    }
    shut = any(f.status is Status.FAIL for told in found.values() for f in told)
    if stops.count:
        raise KeyboardInterrupt
    if asked.gates or shut:
        return _told(asked, found, shut)
    print_findings(found, Status.UNKNOWN)
    return _run(asked, stops)


def _unheard(_host: str, _line: str) -> None:
    """What a node says beside its document."""


def address(host: str) -> str:
    """Where the others reach the first host, as ssh's own configuration has it."""
    from envcheck.core.process import run

    told = run(("ssh", "-G", host), timeout_s=10)
    names = [line.split()[1] for line in told.out.splitlines() if line.startswith("hostname ")]
    if told.status or not names:
        raise EnvcheckError(f"ssh does not tell the address of {host}", "say it: --master ADDRESS")
    return names[0]


def _told(asked: NodesRequest, found: dict[str, list[Finding]], shut: bool) -> int:
    """Of the gates alone: nothing is started."""
    every = [f for told in found.values() for f in told]
    code = errors.USAGE if all(f.name == node.REFUSED for f in every) else exit_code(every)
    if asked.as_json:
        state = "refused" if shut else "ready"
        said = {"schema": SCHEMA_VERSION, "verb": "train", "result": state, **findings_outcome(every, code)}
        click.echo(json.dumps({**said, "gates": findings_values(found)}, indent=1))
    if not asked.as_json or not asked.gates:
        print_findings(found, Status.OK if asked.gates else Status.FAIL)
    if shut and not asked.gates:
        say(spoken("nothing was started on any host"))
    return code


def _run(asked: NodesRequest, stops: runner.Stops) -> int:
    """Every node to its end; the first bad one is that of all."""
    order: list[str] = []

    def ended(did: Did) -> None:
        order.append(did.host)
        if did.code != errors.FIT:
            stops.later(*OTHERS_S)

    def hear(host: str, line: str) -> None:
        say(f"{safe(host)}: {line_of(line if line.startswith(OF_A_TOOL) else spoken(line))}")

    did = runner.do(asked.order(together=True), hear, ended, stops)
    nodes = [node.ended(one, rank) for rank, one in enumerate(did)]
    if stops.count:  # a worker may lose its peers before its own node has heard of the Ctrl-C
        nodes = [replace(one, state="interrupted", seen="") if one.state == "failed" else one for one in nodes]
    first = _first(nodes, order) if not stops.count else None
    code = errors.INTERRUPTED if stops.count else first.code if first else errors.FIT
    if first and first.code == errors.INTERRUPTED:
        code = errors.TRAINING_FAILED
    _tell(asked, nodes, first, code)
    return code


def _first(nodes: Sequence[Node], order: Sequence[str]) -> Node | None:
    """Whose end was the others' too: a lost host, then one that failed by itself, then who ended first."""
    bad = sorted((one for one in nodes if one.bad), key=lambda one: order.index(one.host))
    lost = [one for one in bad if one.state in ("lost", "unreached")]
    own = [one for one in bad if one.code != errors.INTERRUPTED and not one.follows]
    return next(iter((*lost, *own, *bad)), None)


def _tell(asked: NodesRequest, nodes: Sequence[Node], first: Node | None, code: int) -> None:
    result = "finished" if code == errors.FIT else "interrupted" if code == errors.INTERRUPTED else "failed"
    if asked.as_json:
        why = f"{first.host}: {first.seen or first.state}" if first else result
        said = {
            "schema": SCHEMA_VERSION,
            "verb": "train",
            "result": result,
            **errors.outcome(code, why),
        }
        hosts = {
            one.host: {
                "rank": one.rank,
                "state": one.state,
                "exit_code": one.code,
                "seen": one.seen,
                "record": one.record,
            }
            for one in nodes
        }
        click.echo(json.dumps({**said, "first": first.host if first else None, "hosts": hosts}, indent=1))
    groups: dict[tuple[str, str], list[Node]] = {}
    for one in nodes:
        groups.setdefault((one.state, one.seen), []).append(one)
    for (state, seen), same in groups.items():
        words = f"{spoken(': ')}{spoken(seen)}" if seen else ""
        say(f"{column(state)}{fold_hosts(one.host for one in same)}{words}")
        for one in same[:4] if state != "finished" else same[:1]:
            if one.folder:
                say(f"{'':12}{one.host}: {one.folder}/run.json")
    if first and len(nodes) > 1:
        why = spoken("{} (rank {}); the others ended since it did").format(first.host, first.rank)
        say(f"{column('first')}{why}")
        say(f"  {spoken('next: ')}{spoken('see to {}, then start it again').format(first.host)}")
