"""`envcheck train --hosts`: preflight checks on every host, then a launcher on each with its rank.

Each host runs `envcheck train` with --rank, --master and --nnodes from a copy of envcheck that is sent over ssh, so
preflight checks, rendezvous, supervision, record and diagnosis are those of a single node. If one host fails, all stop.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click

from envcheck.core import errors
from envcheck.core.errors import EnvcheckError, UsageError
from envcheck.core.facts import Facts
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import translate as spoken
from envcheck.core.messages import NOTHING, Message, _, mark, ngettext, verbatim
from envcheck.core.model import Finding, Status
from envcheck.core.version import SCHEMA_VERSION
from envcheck.fleet import runner
from envcheck.fleet.runner import CommandOutcome
from envcheck.job.command import render_job
from envcheck.job.command_values import fill_values
from envcheck.job.resolve import resolve
from envcheck.payload.content import Payload
from envcheck.payload.remote_command import Word
from envcheck.report.summary import describe_outcome, exit_code, safe
from installers.hosts.presentation import pad_state
from installers.hosts.remote_plan import sanitize_line
from installers.recipes import catalogue
from installers.recipes.catalogue import JobShape
from installers.recipes.recipe import Recipe
from launch import gates, restart_run
from launch.backends import submission_checks
from launch.backends.node_findings import findings_values, print_findings
from launch.backends.ssh import host_restart, node_outcome
from launch.backends.ssh.host_restart import HostFault
from launch.backends.ssh.node_outcome import NodeOutcome
from launch.run import states
from launch.run.run_text import print_line, print_translated
from launch.targets.train_request import TrainRequest

# After one host failed, the others get this long to end by themselves with their own report; then they are stopped.
OTHERS_S = (15.0, 18.0)
STATE_LABELS = {  # other states are printed as they are
    states.LOST: mark("disconnected"),
    node_outcome.UNREACHED: mark("unreachable"),
    node_outcome.NOT_STARTED: mark("not started"),
}
LABEL_WIDTH = 14
QUOTE_PREFIXES = ("  |", "    $")  # of lines with tool output or commands, which are not translated


@dataclass(frozen=True)
class NodesRequest:
    """`words` are the options for each host, `said` is their text as the user typed it; `carried` are files in them.

    Preflight checks and starts run on `fanout` hosts at a time, the checks for `host_timeout_s` at most; started hosts
    run together.  `restart`: how often the run starts again after a fault of the infrastructure; then a faulty host is
    left out if at least `min_nodes` are left, and the others get up to `gather_s` to be reachable again.  `resume`: the
    run that a host continues.
    """

    hosts: tuple[str, ...]
    words: tuple[Word, ...]
    said: str
    carried: Payload | None = None
    master: str = ""
    runs: str = "runs"
    fanout: int = 64
    host_timeout_s: float = 300.0
    forget: bool = False
    as_json: bool = False
    gates: bool = False
    dry_run: bool = False
    fail_on_unknown: bool = False
    restart: int = 0
    min_nodes: int | None = None
    gather_s: float = 600.0
    resume: Mapping[str, str] = field(default_factory=dict)
    is_master_derived: bool = False

    def list_host_options(self, host: str) -> tuple[str, ...]:
        """Return the options of one host. Each has its own run folder, since hosts may share a file system."""
        count, runs = len(self.hosts), ["--runs", f"{self.runs}/{host}"]
        runs += ["--resume", self.resume[host]] if host in self.resume else []
        if count == 1:  # jobs of one node refuse a rank and a master
            return ("--nnodes", "1", *runs)
        return ("--nnodes", str(count), "--rank", str(self.hosts.index(host)), "--master", self.master, *runs)

    def build_order(self, *more: str, deadline_s: float | None = None, together: bool = False) -> runner.FleetCommand:
        """Return the command for all hosts, with `more` options."""
        words = {host: ("train", "--json", *more, *self.list_host_options(host), *self.words) for host in self.hosts}
        return runner.FleetCommand(words, self.carried, self.fanout, deadline_s, self.forget, together)


def check_job(request: TrainRequest, hosts: Sequence[str]) -> None:
    """Raise UsageError for what no host could accept: no recipe, wrong options, relative paths, impossible ports.

    Several recipes may match, of which each host chooses by its devices: then each of them has to be impossible."""
    recipes = catalogue.load_all(request.recipes)
    named = (catalogue.find_recipe(recipes, request.recipe),) if request.recipe else recipes
    count, words = len(hosts), (request.model, request.method, request.device, request.framework)
    # Node 0 gets its address from ssh's configuration; here any host's name takes its place.
    there = replace(request, nnodes=count)
    there = replace(there, rank=0, master=request.master or hosts[0]) if count > 1 else there
    submission_checks.check_remote_paths(there)
    refused: list[UsageError] = []
    for recipe, method in catalogue.list_possible(named, *words, JobShape(request.variant, request.node_role)):
        one = replace(there, recipe=recipe.name, method=method.method, variant=method.variant or None)
        one = replace(one, model=None, framework=None, node_role=method.role or None, device=method.device or "auto")
        try:
            _check_offer(replace(one, rank=method.rank) if method.role else one, recipes)
        except UsageError as err:
            refused.append(err)
            continue
        return
    raise refused[0]


def _check_offer(request: TrainRequest, recipes: Sequence[Recipe]) -> None:
    job = resolve(request, recipes, Facts())
    command = render_job(job, fill_values(request, job.recipe, None))
    submission_checks.check_values(command)
    # The user on the hosts is ssh's to choose.
    submission_checks.check_ports(job, command, submission_checks.HOST_SERVICES, is_root=True)


def train_on_hosts(request: NodesRequest) -> int:
    """Run the preflight checks on all hosts, then the training; return the exit code."""
    if not request.master:
        request = replace(request, master=resolve_ssh_address(request.hosts[0]), is_master_derived=True)
    if request.dry_run:
        for host in request.hosts:
            click.echo(f"{host}: envcheck train {shlex.join(request.list_host_options(host))} {request.said}".rstrip())
    stops = runner.StopRequests()
    found = _check_hosts(request, stops)
    has_failed = bool(gates.select_preventing(_list_findings(found), request.fail_on_unknown))
    if stops.count:
        raise KeyboardInterrupt
    if request.dry_run:
        print_findings(found, Status.UNKNOWN)
        return exit_code([f for findings in found.values() for f in findings])
    if request.gates or has_failed:
        return _report_gates(request, found, has_failed)
    print_findings(found, Status.UNKNOWN)
    ended, past = _run_nodes(request, stops), list[HostFault]()
    while len(past) < request.restart and (fault := host_restart.find_host_fault(ended.first)) is not None:
        past.append(fault)
        _report_text(ended)
        again = _prepare_restart(request, ended, past)
        if again is None:
            return _report_end(request, ended, past, is_reported=True)
        request, ended = again, _run_nodes(again, runner.StopRequests())
    return _report_end(request, ended, past)


def _check_hosts(request: NodesRequest, stops: runner.StopRequests) -> dict[str, list[Finding]]:
    """Return the preflight findings of each host."""
    order = request.build_order("--gates", deadline_s=request.host_timeout_s)
    return {did.host: node_outcome.parse_gates(did) for did in runner.run_commands(order, _ignore_line, stops=stops)}


def _list_findings(found: Mapping[str, Sequence[Finding]]) -> list[Finding]:
    return [finding for findings in found.values() for finding in findings]


def _prepare_restart(request: NodesRequest, ended: NodesEnd, past: Sequence[HostFault]) -> NodesRequest | None:
    """Check the hosts of the next attempt; None, with the reason printed, if it cannot start."""
    fault, until = past[-1], time.monotonic() + request.gather_s
    text = _("{host}: {fault}", host=fault.host, fault=fault.seen)
    print_translated(_("restart {number} of {count}: {fault}", number=len(past), count=request.restart, fault=text))
    request = _choose_hosts(request, fault)
    request = replace(request, resume=host_restart.choose_resume(request.hosts, ended.nodes))
    while True:
        time.sleep(restart_run.DELAY_S)
        stops = runner.StopRequests()
        found = _check_hosts(request, stops)
        if stops.count:
            raise KeyboardInterrupt
        failed = gates.select_preventing(_list_findings(found), request.fail_on_unknown)
        if not failed:
            print_findings(found, Status.UNKNOWN)
            return request
        if request.resume and all(finding.name == node_outcome.REFUSED for finding in failed):
            print_translated(_("starts from the beginning: not every host has the checkpoint"))
            request = replace(request, resume={})
        elif any(finding.name != node_outcome.UNREACHABLE for finding in failed) or time.monotonic() > until:
            print_findings(found, Status.FAIL)
            print_translated(_("the training was not started again"))
            return None


def _choose_hosts(request: NodesRequest, fault: HostFault) -> NodesRequest:
    """Return the request without the faulty host if enough hosts are left, else the same."""
    left = tuple(host for host in request.hosts if host != fault.host)
    if request.min_nodes is None or len(left) < request.min_nodes:
        return request
    is_master = request.hosts[0] == fault.host
    if is_master and not request.is_master_derived:  # the others would wait for an address that does not answer
        print_translated(_("not left out: --master is the address of {host}", host=fault.host))
        return request
    text = ngettext(
        "left out: {host}; continues on {count} host",
        "left out: {host}; continues on {count} hosts",
        len(left),
        host=fault.host,
    )
    print_translated(text)
    return replace(request, hosts=left, master=resolve_ssh_address(left[0]) if is_master else request.master)


def _ignore_line(_host: str, _line: str) -> None:
    """Drop what a host prints besides its document."""


def resolve_ssh_address(host: str) -> str:
    """Return the address of a host in the configuration of ssh, which the other hosts use as master address."""
    from envcheck.core.process import run_command

    shown = run_command(("ssh", "-G", host), timeout_s=10)
    names = [line.split()[1] for line in shown.out.splitlines() if line.startswith("hostname ")]
    if shown.status or not names:
        raise EnvcheckError(
            _("cannot determine the address of {host} from `ssh -G {host}`", host=host),
            _("specify it with --master ADDRESS"),
        )
    return names[0]


def _report_gates(request: NodesRequest, found: dict[str, list[Finding]], has_failed: bool) -> int:
    """Report the preflight checks of all hosts; no training is started."""
    findings = [f for of_host in found.values() for f in of_host]
    code = errors.USAGE if all(f.name == node_outcome.REFUSED for f in findings) else exit_code(findings)
    if request.as_json:
        state = states.REFUSED if has_failed else states.READY
        head = {"schema": SCHEMA_VERSION, "verb": "train", "result": state, **describe_outcome(findings, code)}
        click.echo(json.dumps({**head, "gates": findings_values(found)}, indent=1))
    if not request.as_json or not request.gates:
        least = Status.FAIL if gates.select_closed(findings) else Status.UNKNOWN
        print_findings(found, Status.OK if request.gates else least)
    if has_failed and not request.gates:
        print_translated(_("the training was not started on any host"))
    return code


@dataclass(frozen=True)
class NodesEnd:
    """How a run ended on its hosts; `first` made the others end, None if all succeeded or the user stopped it."""

    nodes: Sequence[NodeOutcome]
    first: NodeOutcome | None
    code: int


def _run_nodes(request: NodesRequest, stops: runner.StopRequests) -> NodesEnd:
    """Run the training on all hosts; the exit code is that of the host that failed first."""
    order: list[str] = []

    def ended(did: CommandOutcome) -> None:
        order.append(did.host)
        if did.code != errors.SUCCESS:
            stops.schedule_stops(*OTHERS_S)

    def forward(host: str, line: str) -> None:
        print_line(f"{safe(host)}: {sanitize_line(line if line.startswith(QUOTE_PREFIXES) else spoken(line))}")

    outcomes = runner.run_commands(request.build_order(together=True), forward, ended, stops)
    nodes = [node_outcome.build_node_outcome(did, rank) for rank, did in enumerate(outcomes)]
    if stops.count:  # a worker may lose its peers before Ctrl-C reaches its own host
        nodes = [
            replace(node, state=states.STOPPED, seen=NOTHING) if node.state == states.FAILED else node for node in nodes
        ]
    first = _find_first_failed(nodes, order) if not stops.count else None
    code = errors.INTERRUPTED if stops.count else first.code if first else errors.SUCCESS
    if first and first.code == errors.INTERRUPTED:
        code = errors.TRAINING_FAILED
    return NodesEnd(nodes, first, code)


def _find_first_failed(nodes: Sequence[NodeOutcome], order: Sequence[str]) -> NodeOutcome | None:
    """Return the host that made the others end: a lost one, else one that failed by itself, else the first to end."""
    failed = sorted((node for node in nodes if node.has_failed), key=lambda node: order.index(node.host))
    lost = [node for node in failed if node.state in (states.LOST, node_outcome.UNREACHED)]
    own = [node for node in failed if node.code != errors.INTERRUPTED and not node.follows]
    return next(iter((*lost, *own, *failed)), None)


def _name_result(code: int) -> str:
    return {errors.SUCCESS: states.SUCCEEDED, errors.INTERRUPTED: states.STOPPED}.get(code, states.FAILED)


def _report_end(request: NodesRequest, ended: NodesEnd, past: Sequence[HostFault], is_reported: bool = False) -> int:
    """Print the end; `past` are the faults after which the run started again, or was to."""
    if request.as_json:
        click.echo(json.dumps(_list_end_values(ended, past), indent=1))
    if not is_reported:
        _report_text(ended)
    return ended.code


def _list_end_values(ended: NodesEnd, past: Sequence[HostFault]) -> dict[str, Any]:
    first, result = ended.first, _name_result(ended.code)
    why = f"{first.host}: {first.seen or first.state}" if first else result
    return {
        "schema": SCHEMA_VERSION,
        "verb": "train",
        "result": result,
        **errors.outcome_fields(ended.code, why),
        "first": first.host if first else None,
        "restarts": [{"host": fault.host, "fault": fault.seen} for fault in past],
        "hosts": {
            node.host: {
                "rank": node.rank,
                "state": node.state,
                "exit_code": node.code,
                "seen": node.seen,
                "record": node.record,
            }
            for node in ended.nodes
        },
    }


def _report_text(ended: NodesEnd) -> None:
    nodes, first = ended.nodes, ended.first
    groups: dict[tuple[str, Message], list[NodeOutcome]] = {}
    for node in nodes:
        groups.setdefault((node.state, node.seen), []).append(node)
    for (state, seen), same in groups.items():
        hosts_text = fold_hosts(node.host for node in same)
        line = _("{hosts}: {seen}", hosts=hosts_text, seen=seen) if seen else verbatim(hosts_text)
        print_line(f"{pad_state(STATE_LABELS.get(state, state), LABEL_WIDTH)}{spoken(line)}")
        for node in same[:4] if state != states.SUCCEEDED else same[:1]:
            if node.folder:
                print_line(f"{'':{LABEL_WIDTH}}{node.host}: {node.folder}/run.json")
    if first and len(nodes) > 1:
        why = _("{host} (rank {rank}) failed first and made the other hosts stop", host=first.host, rank=first.rank)
        print_line(f"{pad_state(_('cause'), LABEL_WIDTH)}{spoken(why)}")
        print_line(f"  {spoken(_('next: '))}{spoken(_('fix host {host}, then start the run again', host=first.host))}")
