"""Checks before submission: which nodes meet the requirements of a job, as far as Slurm knows them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from envcheck.core.facts import Facts
from envcheck.job.suitability import judge_requirements
from launch.backends.node_findings import blocked_by, print_placement, refusal_values
from launch.backends.node_requirements import NodeResources, PlacementVerdict, apply_verdict, build_facts
from launch.backends.roles import resolve_roles
from launch.backends.slurm import job_plan, node_resources, site
from launch.backends.slurm.node_resources import SlurmNode
from launch.backends.slurm.site import NodeCards
from launch.backends.slurm.slurm_options import SlurmOptions
from launch.targets.train_request import TrainRequest

LINE = (
    "NodeName={name} Arch={arch} CoresPerSocket=1  CPUAlloc=0 CPUTot=16 CPULoad=1.35 AvailableFeatures={features} "
    "ActiveFeatures=(null) Gres={gres} NodeAddr=10.0.0.1 NodeHostName={name} Version=22.05.8 OS=Linux 6.1 #1 SMP @0  "
    "RealMemory={memory} AllocMem=0 FreeMem=21980 Sockets=16 Boards=1 State={state} Partitions={partition}  "
    "BootTime=2026-11-23T02:46:51 CfgTRES=cpu=16,mem=64G,billing=16 Reason=Gres=npu:99 [root@2026-11-23T06:41:24]"
)
USUAL = {"arch": "x86_64", "features": "(null)", "gres": "npu:16", "memory": 2 << 20, "state": "IDLE"}


def parse_nodes(*nodes: Mapping[str, object]) -> tuple[SlurmNode, ...]:
    """Return nodes as scontrol prints them, with the fields of USUAL unless given."""
    return tuple(node_resources.parse_nodes("\n".join(LINE.format(**{**USUAL, **node}) for node in nodes) + "\n"))


def make_nodes(count: int, partition: str = "npu", **more: object) -> list[dict[str, object]]:
    return [{"name": f"{partition}{n}", "partition": partition, **more} for n in range(1, count + 1)]


def judge_request(
    nodes: tuple[SlurmNode, ...],
    request: TrainRequest,
    variables: Mapping[str, str] | None = None,
    **options: object,
) -> tuple[PlacementVerdict, ...]:
    """Judge as a submission does: sinfo lists the same nodes, and the first partition is the default one."""
    partitions = list(dict.fromkeys(name for node in nodes for name in node.partitions))
    rows = [
        site.PartitionRow(name, name == partitions[0], True, "infinite", 1, node.cards)
        for name in partitions
        for node in nodes
        if name in node.partitions
    ]
    wish = SlurmOptions(**options)  # type: ignore[arg-type]
    plan = job_plan.build_plan(
        request, resolve_roles(request, Facts()), wish, rows, Path("/shared/runs/x"), "/opt/envcheck"
    )
    return node_resources.judge_plan(plan, rows, nodes, variables or {})


EIGHT = TrainRequest(
    model="300b", method="sft", device="npu"
)  # eight nodes of 16 cards, x86_64, 559 GiB of host memory


def test_what_slurm_knows_of_a_node() -> None:
    """Devices, memory, architecture, partitions; fields in an operator's Reason text are ignored."""
    (node,) = parse_nodes({"name": "node01", "partition": "npu,debug", "features": "a2,ib", "gres": "npu:16(S:0-1)"})

    assert node == SlurmNode("node01", ("npu", "debug"), ("a2", "ib"), (NodeCards("npu", "", 16),), 2 << 20, "x86_64")


@pytest.mark.parametrize("text", ("", "Node node05 not found\n", "slurm_load_node error: timed out\n"))
def test_what_is_no_node(text: str) -> None:
    """An error of scontrol is not parsed as a node."""
    assert tuple(node_resources.parse_nodes(text)) == ()


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        (make_nodes(8), ()),
        (make_nodes(7), ("nodes",)),
        (make_nodes(8, gres="npu:8"), ("cards",)),
        (make_nodes(8, gres="gpu:h200:8"), ("device",)),
        (make_nodes(8, arch="aarch64"), ("architecture",)),
        (make_nodes(8, memory=65536), ("host_memory",)),
        ([*make_nodes(8), *make_nodes(2, "old", gres="npu:8")], ()),
        ([*make_nodes(4), *make_nodes(4, "more")], ("nodes",)),
        (make_nodes(8, state="DOWN"), ()),
        (make_nodes(8, arch="(null)", memory=1), ()),
        (make_nodes(8, gres="(null)"), ()),
    ],
    ids=(
        *("fits", "too few nodes", "too few cards", "another vendor", "architecture", "memory", "one partition fits"),
        *("in two partitions", "down comes back", "unknown", "nothing counted"),
    ),
)
def test_which_requirement_no_node_meets(nodes: list[dict[str, object]], names: tuple[str, ...]) -> None:
    """By hardware, not by current state; facts that Slurm does not know do not block."""
    assert blocked_by(judge_request(parse_nodes(*nodes), EIGHT)) == names


def test_report_of_unmet_requirements(capsys: pytest.CaptureFixture[str]) -> None:
    """First how many nodes of each partition fit, then each unmet requirement once with its nodes and remedy, as the
    checks of a single machine report it."""
    nodes = parse_nodes(*make_nodes(8, arch="aarch64"), *make_nodes(2, "old", gres="npu:8"))
    verdicts = judge_request(nodes, EIGHT, partition=("npu",))
    print_placement(verdicts)
    first, second, third, *_ = capsys.readouterr().err.splitlines()
    (wanted,) = (one.wanted for one in resolve_roles(EIGHT, Facts()))
    alone = build_facts(NodeResources("npu1", {"npu": 16}, "aarch64", 2 << 40), wanted)
    (own,) = (f for f in judge_requirements(alone) if f.name == "job.architecture")

    assert first == "blocked: ernie-300b-npu-sft needs 8 nodes that meet its requirements; found: npu 0/8"
    assert second == f"failed   npu[1-8]: job.architecture: {own.seen}"
    assert own.remedy and third == f"         next: {own.remedy.words}"
    assert refusal_values(verdicts)["nodes"]["npu1"][0]["seen"] == own.seen


def test_waived_requirements_do_not_block() -> None:
    """A requirement of a waived preflight check does not block; the others still do."""
    nodes = parse_nodes(*make_nodes(8, gres="npu:8", memory=65536))
    rows = tuple(site.parse_sinfo("npu*|up|infinite|8|npu:8\n"))
    plan = job_plan.build_plan(
        EIGHT, resolve_roles(EIGHT, Facts()), SlurmOptions(), rows, Path("/shared/runs/x"), "/opt/envcheck"
    )
    verdicts = node_resources.judge_plan(plan, rows, nodes, {}, ("devices",))

    assert blocked_by(verdicts) == ("host_memory",)


def test_the_job_is_blocked_by_its_nodes() -> None:
    """The machine that submits the job does not count."""
    (resolved,) = resolve_roles(EIGHT, Facts())
    (verdict,) = judge_request(parse_nodes(*make_nodes(8, gres="npu:8")), EIGHT)

    assert apply_verdict(resolved, verdict).as_json()["blocked_by"] == ["cards"]
    assert apply_verdict(resolved, None).as_json()["blocked_by"] == []


def test_unchecked_requirements_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Requirements that could not be checked are listed with their nodes."""
    print_placement(
        judge_request(parse_nodes(*make_nodes(7), *make_nodes(1, "npu", name="late", arch="(null)", memory=1)), EIGHT)
    )

    assert capsys.readouterr().err == (
        "note: not checked before submission on late: job.architecture, job.host_memory\n"
    )


@pytest.mark.parametrize(
    ("options", "variables", "names"),
    [
        ((), {}, ()),
        (("--exclude=npu[1-2]",), {}, ("nodes",)),
        (("--constraint=a3",), {}, ("nodes",)),
        (("--constraint=a2|a3",), {}, ()),
        (("--nodelist=npu[1-3]",), {}, ()),
        (("--nodelist=old1",), {}, ("nodes",)),
        ((), {"SBATCH_PARTITION": "old"}, ("cards",)),
    ],
)
def test_options_that_choose_nodes(options: tuple[str, ...], variables: dict[str, str], names: tuple[str, ...]) -> None:
    """--exclude, --nodelist, --constraint and partition are applied; constraints with operators leave all nodes."""
    nodes = parse_nodes(*make_nodes(9, features="a2"), *make_nodes(8, "old", gres="npu:8"))

    assert blocked_by(judge_request(nodes, EIGHT, variables, sbatch=options)) == names


@pytest.mark.parametrize(("gres", "names"), (("gpu:bi150:8", ()), ("gpu:bi150:16", ()), ("gpu:bi150:4", ("cards",))))
def test_cards_that_are_bought(gres: str, names: tuple[str, ...]) -> None:
    """A site may count boards with two chips: 16 devices are eight boards."""
    request = TrainRequest(model="21b", method="lora", device="iluvatar")

    assert blocked_by(judge_request(parse_nodes(*make_nodes(1, "ilu", gres=gres)), request)) == names


def test_gres_name_from_the_option() -> None:
    """--gres names the resource of the site, by which devices are counted."""
    request = TrainRequest(model="21b", method="lora", device="npu")
    nodes = parse_nodes(*make_nodes(1, "all", gres="accelerator:16"), *make_nodes(1, "small", gres="accelerator:8"))

    assert blocked_by(judge_request(nodes, request, gres=("accelerator",), partition=("all",))) == ()
    assert blocked_by(judge_request(nodes, request, gres=("accelerator",), partition=("small",))) == ("cards",)


def test_each_role_has_its_own_nodes() -> None:
    """A job over mixed devices is refused for the component without nodes, which the title names."""
    request = TrainRequest(recipe="ernie-21b-hetero", method="lora")
    nodes = parse_nodes(*make_nodes(1, "nv", gres="gpu:h200:8"), *make_nodes(1, "ilu", gres="gpu:bi150:2"))
    nvidia, iluvatar = judge_request(nodes, request, partition=("nv", "ilu"))

    assert (nvidia.is_refused, iluvatar.blocked_by) == (False, ("cards",))
    assert "(iluvatar)" in iluvatar.title
