"""Plans on a real machine: its links rank layouts, its fullest card decides the verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.collect import facts
from envcheck.core.errors import UndeterminedError, UsageError
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.model import Device, Topology
from envcheck.simulate import faults, simulated_run
from envcheck.simulate import machine_file as described
from envcheck.vendors import VENDORS
from launch import planner
from launch.catalogue import devices
from launch.catalogue.links import MachineLinks, load_link_kinds, measure_links
from launch.memory.planned_job import PlannedJob, Recompute
from launch.planner import machines, search, speed
from tests.envcheck.checks.doctor_helpers import simulate_machine
from tests.launch.planner.planner_helpers import A100, ASCEND, GENERIC, ILUVATAR, MEGATRON, make_job, make_lora_job

ROOT = Path(__file__).parents[3]
Word = Callable[[int, int], str]
# DGX-1: six NVLinks per card, to four of seven peers (a public matrix of nvidia-smi).
CUBE = [row.split() for row in (
    "X NV1 NV1 NV2 NV2 SYS SYS SYS", "NV1 X NV2 NV1 SYS NV2 SYS SYS", "NV1 NV2 X NV2 SYS SYS NV1 SYS",
    "NV2 NV1 NV2 X SYS SYS SYS NV1", "NV2 SYS SYS SYS X NV1 NV1 NV2", "SYS NV2 SYS SYS NV1 X NV2 NV1",
    "SYS SYS NV1 SYS NV1 NV2 X NV2", "SYS SYS SYS NV1 NV2 NV1 NV2 X",
)]  # fmt: skip


def make_topology(cards: int, word: Word) -> Topology:
    names = tuple(f"GPU{n}" for n in range(cards))
    matrix = {a: {b: word(i, j) if i != j else "X" for j, b in enumerate(names)} for i, a in enumerate(names)}
    return Topology(devices=names, matrix=matrix)


def make_links(cards: int, word: Word) -> MachineLinks:
    found = measure_links(make_topology(cards, word), range(cards), 24)
    assert found
    return found


def name_quad_link(i: int, j: int) -> str:
    """NVLink within four cards, PCIe and sockets between."""
    return "NV4" if i // 4 == j // 4 else "SYS"


@pytest.mark.parametrize(
    ("cards", "word", "expected"),
    [
        (8, lambda i, j: "HCCS", {(2, 1): 28, (4, 1): 84, (8, 1): 196, (2, 4): 28}),
        (8, lambda i, j: "NV12", {(2, 1): 300, (4, 1): 300, (8, 1): 300}),
        (4, lambda i, j: "NV4", {(2, 1): 100, (4, 1): 300}),
        (8, name_quad_link, {(2, 1): 100, (4, 1): 300, (8, 1): 9.6, (2, 4): 9.6}),
        (8, lambda i, j: CUBE[i][j], {(2, 1): 25, (4, 1): 100, (8, 1): 150}),
        (16, lambda i, j: "SIO" if i // 2 == j // 2 else "HCCS_SW", {(2, 1): 270, (4, 1): 196, (16, 1): 196}),
        (4, lambda i, j: "PIX" if i // 2 == j // 2 else "NODE", {(2, 1): 24, (4, 1): 19.92, (2, 2): 19.92}),
    ],
    ids=["mesh", "switch", "four on direct links", "quads on PCIe", "cube", "dies and a switch", "boards"],
)
def test_bandwidth_of_groups(cards: int, word: Word, expected: dict[tuple[int, int], float]) -> None:
    """A group is limited by the links it cannot avoid: its share of a mesh, a whole switch, the slow link between."""
    found = make_links(cards, word)

    assert {size: found.group_bandwidth_gbs(*size) for size in expected} == pytest.approx(expected)


def test_uneven_groups_and_those_that_leave() -> None:
    """A size that does not divide the machine counts as the whole machine; a larger group has no link of it."""
    found = make_links(8, name_quad_link)

    assert found.group_bandwidth_gbs(3) == found.group_bandwidth_gbs(8)
    assert found.group_bandwidth_gbs(4, 4) is None


@pytest.mark.parametrize("word", ["NA", "N/A", "", "WARP"])
def test_unknown_words(word: str) -> None:
    """An unknown word makes the links unknown."""
    assert measure_links(make_topology(4, lambda i, j: word if i == 1 else "PIX"), range(4), 24) is None


@given(
    st.lists(
        st.sampled_from([*(k.name for k in load_link_kinds()), "NV2", "NV18", "NA", "X"]), min_size=36, max_size=36
    )
)
def test_any_matrix(words: list[str]) -> None:
    """For any matrix each group has a positive bandwidth, or the links are unknown."""
    found = measure_links(make_topology(6, lambda i, j: words[6 * i + j]), range(6), 24)

    assert found is None or all(group.gbs > 0 for group in found.groups)


def set_links(links_here: MachineLinks | None, asked: PlannedJob) -> PlannedJob:
    return replace(asked, device=replace(asked.device, links=links_here))


def find_best_tp(links_here: MachineLinks | None) -> int:
    """Return the tensor degree of the fastest layout of a dense 7B model on eight A100."""
    asked = make_job(
        "qwen2.5-7b", framework=MEGATRON, device=A100, memory_gib=80, cards=8, sharding="dist_opt", seq_len=4096
    )
    return search.search_layouts(set_links(links_here, asked))[0].plan.job.layout.tp


def step_seconds(links_here: MachineLinks | None, tp: int) -> float:
    asked = make_job("qwen2.5-7b", tp, framework=MEGATRON, device=A100, memory_gib=80, cards=8, seq_len=4096)
    return speed.estimate_step(set_links(links_here, asked), 128).total


def test_tensor_ranks_stay_on_nvlink() -> None:
    """With two NVLink quads connected by PCIe, tp 8 is much slower than tp 4; with a switch it is not."""
    apart, switched = make_links(8, name_quad_link), make_links(8, lambda i, j: "NV12")

    assert step_seconds(apart, 4) < step_seconds(apart, 8) / 3
    assert step_seconds(switched, 8) < step_seconds(switched, 4) * 1.5
    assert find_best_tp(apart) <= 4


def test_modules_of_box16() -> None:
    """Atlas 200T A2 Box16: tensor parallelism within a module is much faster than across both."""
    with simulate_machine("atlas-200t-a2-box16") as here:
        machine = machines.find_machine(facts.gather_facts(here, "npu"), "npu")
    box = machine.device.links
    assert box

    eight, sixteen = (
        speed.estimate_step(replace(make_lora_job("qwen2.5-72b", tp, 1, cards=16), device=machine.device), 128).tensor
        for tp in (8, 16)
    )

    assert box.group_bandwidth_gbs(8) == 196
    assert box.group_bandwidth_gbs(16) == pytest.approx(9.6)
    assert sixteen > 10 * eight


def test_dies_of_a_board() -> None:
    """Iluvatar: the dies of a board have the fastest link, boards of a socket the next, all others the slowest."""
    with simulate_machine("bi-v150x8") as here:
        found = machines.find_machine(facts.gather_facts(here, "iluvatar"), "iluvatar").device.links
    assert found
    two, four, all_of_them = (found.group_bandwidth_gbs(n) or 0 for n in (2, 4, 16))

    assert two > four > all_of_them > 0
    assert (
        speed.link_bytes_per_s(replace(make_lora_job("21b", 2, 1), device=replace(ILUVATAR, links=found)), 2)
        == two * 1e9
    )


def test_a_card_that_lost_its_links() -> None:
    """A card without HCCS slows every group that it belongs to."""
    with simulate_machine("atlas-800t-a2") as well, simulate_machine("atlas-800t-a2", ["topology-degraded"]) as ill:
        fit, lame = (machines.find_machine(facts.gather_facts(here, "npu"), "npu").device.links for here in (well, ill))
    assert fit and lame

    assert fit.group_bandwidth_gbs(8) == 196
    assert (lame.group_bandwidth_gbs(8) or 0) < 20


def test_assumed_links_are_listed() -> None:
    """Without a topology the typical links of the device are assumed, and listed."""
    with simulate_machine("atlas-800t-a2") as here:
        known = facts.gather_facts(here, "npu")
    dumb = replace(known, vendors=tuple(replace(v, topology=None) for v in known.vendors))
    linked, unlinked = (planner.plan(of, make_lora_job("qwen-7b", 1, 1, cards=8)).job for of in (known, dumb))

    assert not any(text.startswith("links: ") for text in linked.assumed)
    assert [text for text in unlinked.assumed if text.startswith("links: ")] == [
        "links: 196 GB/s per card within a machine of 8, 25 GB/s between machines (typical for ascend-910b3)"
    ]
    assert speed.link_bytes_per_s(unlinked, 2) == 196e9


def test_estimated_figures_are_listed_as_estimates() -> None:
    """Without published figures for a card, the plan says that its figures are estimates; each is a real field."""
    card = devices.find_device("P800")
    assumed = [devices.assumed_card(card), *devices.assumed_links(card, 8)]

    assert [text.partition(":")[0] for text in assumed] == ["card", "links"]
    assert all("no figures are published for kunlunxin-p800" in text for text in assumed)
    assert all(hasattr(each, name) for each in devices.load_devices() for name in each.estimates)
    assert not devices.assumed_card(devices.find_device("910B3"))


def test_step_size() -> None:
    """--grad-accum sets the samples of a step; every layout found has the same samples per step."""
    asked = make_job("qwen2.5-7b", framework=MEGATRON, cards=8, sharding="dist_opt", seq_len=4096, grad_accum=3)
    found = search.search_layouts(asked)

    assert speed.samples_per_step(asked) == 24
    assert speed.samples_per_step(replace(asked, grad_accum=None)) == speed.SAMPLES
    assert len(found) > 3
    assert {speed.samples_per_step(one.plan.job) for one in found} == {24}
    assert {one.samples for one in found} == {24}


def test_slower_with_more_samples() -> None:
    """A step processes at least its samples: replicas that do not divide them add a micro batch."""
    asked = make_job("qwen2.5-7b", framework=GENERIC, device=A100, cards=6)

    assert speed.estimate_step(asked, 7).compute == pytest.approx(speed.estimate_step(asked, 12).compute)


def test_recompute_costs() -> None:
    """Full recompute adds a third of the work, half the layers half of that, attention only far less."""
    base = make_job("qwen2.5-7b", recompute=Recompute("none"), seq_len=4096)
    kinds = (Recompute("full"), Recompute("block", 14), Recompute("selective"))
    full, half, scores = (
        speed.flops_per_token(replace(base, recompute=kind)) / speed.flops_per_token(base) for kind in kinds
    )

    assert full == pytest.approx(4 / 3)
    assert half == pytest.approx(7 / 6)
    assert 1 < scores < 1.05


def hold_memory(mib: int) -> Facts:
    with simulate_machine("atlas-800t-a2", [f"memory-held={mib}"]) as here:
        return facts.gather_facts(here, "npu")


def test_plan_with_and_without_facts() -> None:
    """plan(facts, job) uses free memory and links of this machine; plan(None, job) those of the job."""
    asked = make_lora_job("qwen-7b", 1, 1, cards=8)
    here, anywhere = planner.plan(hold_memory(30_000), asked), planner.plan(None, asked)

    assert here.usable < anywhere.usable
    assert here.job.device.links and not anywhere.job.device.links
    assert (len(here.cards), anywhere.cards) == (8, ())


def test_fewer_cards_are_the_emptiest() -> None:
    """A job of seven cards uses the seven free ones."""
    found = planner.plan(hold_memory(60_000), make_lora_job("qwen-7b", 1, 1, cards=7))

    assert found.verdict == planner.FITS
    assert [card.number for card in found.cards if not card.taken] == [0]


def test_more_cards_are_further_machines() -> None:
    """A job of 32 cards is planned on four machines like this one, connected by the network."""
    found = planner.plan(hold_memory(3_000), make_lora_job("300b", 8, 4)).job

    assert speed.link_bytes_per_s(found, 8) == 196e9
    assert speed.link_bytes_per_s(found, 4, 8) == ASCEND.net_gbs * 1e9
    assert "links: more machines like this one, 25 GB/s between machines" in found.assumed


def test_another_vendors_job() -> None:
    """A job for cards of another vendor is undetermined, not planned on these."""
    with pytest.raises(UndeterminedError, match="no nvidia card of this machine"):
        planner.plan(hold_memory(1), make_job("qwen-7b", device=A100))


@pytest.mark.parametrize(
    ("given", "missing"),
    [({"cards": 4}, "--cards 4 needs --device"), ({"memory_gib": 32.0}, "--memory-gib 32 needs --device")],
)
def test_half_a_description(given: dict[str, float], missing: str) -> None:
    """--cards or --memory-gib without --device on a machine without cards: the error names --device."""
    with pytest.raises(UsageError, match=missing):
        machines.find_machine(Facts(), given=given)
    with pytest.raises(UndeterminedError, match="no accelerator found on this machine"):
        machines.find_machine(Facts())


def test_a_card_of_no_table() -> None:
    """A card that is not in the table is planned as a typical one of its vendor."""
    cards = (Device(index=0, name="Tesla P100-PCIE-16GB", memory_total_mib=16384, memory_used_mib=300),)
    machine = machines.find_machine(Facts(vendors=(VendorFacts(VENDORS["nvidia"], devices=cards),)))

    assert (machine.device.vendor, machine.memory_gib, machine.cards) == ("nvidia", 16, 1)


def run_plan(machine: str, wishes: tuple[str, ...], *argv: str) -> subprocess.CompletedProcess[str]:
    """envcheck plan on a simulated machine."""
    ready = faults.apply_faults(described.load_machine(machine, None), [faults.parse_fault(wish) for wish in wishes])
    with simulated_run.write_machine_folder(ready, None) as folder:
        return subprocess.run(
            [sys.executable, "-m", "envcheck", "plan", *argv],
            cwd=ROOT, capture_output=True, text=True, timeout=120, env={**os.environ, "ENVCHECK_SYSROOT": str(folder)},
        )  # fmt: skip


JOB = ("--model", "qwen-7b", "--method", "lora", "--sharding", "none", "--seq-len", "2048")


def test_fullest_card_on_screen() -> None:
    """The fullest card is named with its lack of memory; excluding it with --cards works."""
    done = run_plan("atlas-800t-a2", ("memory-held=55000",), *JOB)

    assert done.returncode == 1
    assert "fullest   card 0: " in done.stdout
    assert "; the job fits on 7 of 8 cards; use --cards 7 to exclude the others" in done.stdout
    assert run_plan("atlas-800t-a2", ("memory-held=55000",), *JOB, "--cards", "7").returncode == 0


def test_every_card_for_programs() -> None:
    """--json lists free memory and verdict of each card, and marks the deciding one."""
    done = run_plan("atlas-800t-a2", ("memory-held=55000",), *JOB, "--json")
    document = json.loads(done.stdout)
    first, *others = document["cards"]

    assert (document["verdict"], first["verdict"], first["limiting"]) == ("does-not-fit", "does-not-fit", True)
    assert {card["verdict"] for card in others} == {"fits"}
    assert min(card["free_gib"] for card in others) - first["free_gib"] == pytest.approx(55_000 / 1024, abs=1)


def test_search_prints_step_and_links() -> None:
    """The ranking names the timed step and the links."""
    argv = ("--model", "qwen2.5-7b", "--method", "sft", "--framework", "megatron", "--search")
    done = run_plan("atlas-200t-a2-box16", (), *argv, "--grad-accum", "2")
    document = json.loads(run_plan("atlas-200t-a2-box16", (), *argv, "--json").stdout)

    assert "samples of " in done.stdout
    assert "8 cards HCCS 196 GB/s, 16 cards SYS 9.6 GB/s" in done.stdout
    assert document["step_samples"] == speed.SAMPLES
    assert {"ranks": 8, "apart": 1, "gbs": 196, "kind": "HCCS"} in document["links"]


@pytest.mark.parametrize(
    ("faults_here", "note"),
    [
        ((), ""),
        (("card-lost=3",), "7 cards listed, but more are installed: lspci 8"),
        (("truncated",), "was truncated"),
    ],
)
def test_cards_that_are_not_listed(faults_here: tuple[str, ...], note: str) -> None:
    """If the machine has more cards than its tool lists, the plan has a note, unless --cards is given."""
    with simulate_machine("atlas-800t-a2", list(faults_here)) as here:
        known = facts.gather_facts(here, "npu")

    assert note in machines.find_machine(known, "npu").note and bool(machines.find_machine(known, "npu").note) == bool(
        note
    )
    assert machines.find_machine(known, "npu", 4).note == ""
