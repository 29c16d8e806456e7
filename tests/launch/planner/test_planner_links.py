"""The machine at hand: its real links rank layouts, its fullest card decides; groups of cards, step sizes, the door."""

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
from envcheck.core.errors import UntoldError, UsageError
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.model import Device, Topology
from envcheck.simulate import faults, session
from envcheck.simulate import machine_file as described
from envcheck.vendors import VENDORS
from launch import planner
from launch.catalogue.links import Links, kinds, measured
from launch.memory.job import PlannedJob, Recompute
from launch.planner import machines, search, speed
from tests.envcheck.checks.doctor_helpers import simulated
from tests.launch.planner.planner_helpers import A100, ASCEND, GENERIC, ILUVATAR, MEGATRON, job, lora

ROOT = Path(__file__).parents[3]
Word = Callable[[int, int], str]
# DGX-1: six NVLinks a card, to four of seven peers (a public matrix of nvidia-smi).
CUBE = [row.split() for row in (
    "X NV1 NV1 NV2 NV2 SYS SYS SYS", "NV1 X NV2 NV1 SYS NV2 SYS SYS", "NV1 NV2 X NV2 SYS SYS NV1 SYS",
    "NV2 NV1 NV2 X SYS SYS SYS NV1", "NV2 SYS SYS SYS X NV1 NV1 NV2", "SYS NV2 SYS SYS NV1 X NV2 NV1",
    "SYS SYS NV1 SYS NV1 NV2 X NV2", "SYS SYS SYS NV1 NV2 NV1 NV2 X",
)]  # fmt: skip


def topology(cards: int, word: Word) -> Topology:
    names = tuple(f"GPU{n}" for n in range(cards))
    matrix = {a: {b: word(i, j) if i != j else "X" for j, b in enumerate(names)} for i, a in enumerate(names)}
    return Topology(devices=names, matrix=matrix)


def links(cards: int, word: Word) -> Links:
    found = measured(topology(cards, word), range(cards), 24)
    assert found
    return found


def quads(i: int, j: int) -> str:
    """NVLink within four cards, PCIe and sockets between."""
    return "NV4" if i // 4 == j // 4 else "SYS"


@pytest.mark.parametrize(
    ("cards", "word", "expected"),
    [
        (8, lambda i, j: "HCCS", {(2, 1): 28, (4, 1): 84, (8, 1): 196, (2, 4): 28}),
        (8, lambda i, j: "NV12", {(2, 1): 300, (4, 1): 300, (8, 1): 300}),
        (4, lambda i, j: "NV4", {(2, 1): 100, (4, 1): 300}),
        (8, quads, {(2, 1): 100, (4, 1): 300, (8, 1): 9.6, (2, 4): 9.6}),
        (8, lambda i, j: CUBE[i][j], {(2, 1): 25, (4, 1): 100, (8, 1): 150}),
        (16, lambda i, j: "SIO" if i // 2 == j // 2 else "HCCS_SW", {(2, 1): 270, (4, 1): 196, (16, 1): 196}),
        (4, lambda i, j: "PIX" if i // 2 == j // 2 else "NODE", {(2, 1): 24, (4, 1): 19.92, (2, 2): 19.92}),
    ],
    ids=["mesh", "switch", "four on direct links", "quads on PCIe", "cube", "dies and a switch", "boards"],
)
def test_what_groups_of_cards_get(cards: int, word: Word, expected: dict[tuple[int, int], float]) -> None:
    """A group has the links that it cannot avoid: its own share of a mesh, all of a switch, the slow one between."""
    found = links(cards, word)

    assert {size: found.gbs(*size) for size in expected} == pytest.approx(expected)


def test_uneven_groups_and_those_that_leave() -> None:
    """A size that does not part the machine counts as all of it; one that leaves the machine has no link of it."""
    found = links(8, quads)

    assert found.gbs(3) == found.gbs(8)
    assert found.gbs(4, 4) is None


@pytest.mark.parametrize("word", ["NA", "N/A", "", "WARP"])
def test_unknown_words(word: str) -> None:
    """A word that is not known makes the links unknown, not fast and not slow."""
    assert measured(topology(4, lambda i, j: word if i == 1 else "PIX"), range(4), 24) is None


@given(st.lists(st.sampled_from([*(k.name for k in kinds()), "NV2", "NV18", "NA", "X"]), min_size=36, max_size=36))
def test_any_matrix(words: list[str]) -> None:
    """Whatever a tool prints, each group has a rate above nought, or nothing is known."""
    found = measured(topology(6, lambda i, j: words[6 * i + j]), range(6), 24)

    assert found is None or all(group.gbs > 0 for group in found.groups)


def on(links_here: Links | None, asked: PlannedJob) -> PlannedJob:
    return replace(asked, device=replace(asked.device, links=links_here))


def best_tp(links_here: Links | None) -> int:
    """Tensor degree of the fastest layout of a dense 7B on eight A100."""
    asked = job(
        "qwen2.5-7b", framework=MEGATRON, device=A100, memory_gib=80, cards=8, sharding="dist_opt", seq_len=4096
    )
    return search.search(on(links_here, asked))[0].plan.job.layout.tp


def seconds(links_here: Links | None, tp: int) -> float:
    asked = job("qwen2.5-7b", tp, framework=MEGATRON, device=A100, memory_gib=80, cards=8, seq_len=4096)
    return speed.step(on(links_here, asked), 128).total


def test_tensor_ranks_stay_on_nvlink() -> None:
    """Two NVLink quads with PCIe between: tp 8 is slower than tp 4, though a switch would not make it so by much."""
    apart, switched = links(8, quads), links(8, lambda i, j: "NV12")

    assert seconds(apart, 4) < seconds(apart, 8) / 3
    assert seconds(switched, 8) < seconds(switched, 4) * 1.5
    assert best_tp(apart) <= 4


def test_modules_of_box16() -> None:
    """Atlas 200T A2 Box16: tensor ranks of a module beat those of both, and sixteen HCCS cards would not."""
    with simulated("atlas-200t-a2-box16") as here:
        machine = machines.of_facts(facts.gather(here, "npu"), "npu")
    box = machine.device.links
    assert box

    eight, sixteen = (
        speed.step(replace(lora("qwen2.5-72b", tp, 1, cards=16), device=machine.device), 128).tensor for tp in (8, 16)
    )

    assert box.gbs(8) == 196
    assert box.gbs(16) == pytest.approx(9.6)
    assert sixteen > 10 * eight


def test_dies_of_a_board() -> None:
    """Iluvatar: the two dies of a board are nearer than boards, and boards of a socket nearer than the others."""
    with simulated("bi-v150x8") as here:
        found = machines.of_facts(facts.gather(here, "iluvatar"), "iluvatar").device.links
    assert found
    two, four, all_of_them = (found.gbs(n) or 0 for n in (2, 4, 16))

    assert two > four > all_of_them > 0
    assert speed.link(replace(lora("21b", 2, 1), device=replace(ILUVATAR, links=found)), 2) == two * 1e9


def test_a_card_that_lost_its_links() -> None:
    """One card without HCCS slows every group that it is in."""
    with simulated("atlas-800t-a2") as well, simulated("atlas-800t-a2", ["topology-degraded"]) as ill:
        fit, lame = (machines.of_facts(facts.gather(here, "npu"), "npu").device.links for here in (well, ill))
    assert fit and lame

    assert fit.gbs(8) == 196
    assert (lame.gbs(8) or 0) < 20


def test_no_topology_is_said() -> None:
    """Without a topology the device's usual links are taken, and the answer says so."""
    with simulated("atlas-800t-a2") as here:
        known = facts.gather(here, "npu")
    dumb = replace(known, vendors=tuple(replace(v, topology=None) for v in known.vendors))
    told, untold = (planner.plan(of, lora("qwen-7b", 1, 1, cards=8)).job for of in (known, dumb))

    assert not any(text.startswith("links: ") for text in told.assumed)
    assert [text for text in untold.assumed if text.startswith("links: ")] == [
        "links: 196 GB/s a card within a machine of 8, 25 GB/s between machines, as ascend-910b usually has"
    ]
    assert speed.link(untold, 2) == 196e9


def test_step_size() -> None:
    """--grad-accum says a step's samples; every layout found makes up the same ones, and divides them."""
    asked = job("qwen2.5-7b", framework=MEGATRON, cards=8, sharding="dist_opt", seq_len=4096, grad_accum=3)
    found = search.search(asked)

    assert speed.samples(asked) == 24
    assert speed.samples(replace(asked, grad_accum=None)) == speed.SAMPLES
    assert len(found) > 3
    assert {speed.samples(one.plan.job) for one in found} == {24}
    assert {one.samples for one in found} == {24}


def test_slower_with_more_samples() -> None:
    """A step never does less than its samples: replicas that do not divide them add a micro batch."""
    asked = job("qwen2.5-7b", framework=GENERIC, device=A100, cards=6)

    assert speed.step(asked, 7).compute == pytest.approx(speed.step(asked, 12).compute)


def test_recompute_costs() -> None:
    """Full recompute is a third more work, attention's alone far less, half the layers half of it."""
    base = job("qwen2.5-7b", recompute=Recompute("none"), seq_len=4096)
    kinds = (Recompute("full"), Recompute("block", 14), Recompute("selective"))
    full, half, scores = (speed.work(replace(base, recompute=kind)) / speed.work(base) for kind in kinds)

    assert full == pytest.approx(4 / 3)
    assert half == pytest.approx(7 / 6)
    assert 1 < scores < 1.05


def held(mib: int) -> Facts:
    with simulated("atlas-800t-a2", [f"memory-held={mib}"]) as here:
        return facts.gather(here, "npu")


def test_the_door() -> None:
    """plan(facts, job): free memory and links of this machine; plan(None, job): as the job says."""
    asked = lora("qwen-7b", 1, 1, cards=8)
    here, anywhere = planner.plan(held(30_000), asked), planner.plan(None, asked)

    assert here.usable < anywhere.usable
    assert here.job.device.links and not anywhere.job.device.links
    assert (len(here.cards), anywhere.cards) == (8, ())


def test_fewer_cards_are_the_emptiest() -> None:
    """A job of seven cards is planned on the seven that nobody holds."""
    found = planner.plan(held(60_000), lora("qwen-7b", 1, 1, cards=7))

    assert found.verdict == planner.FITS
    assert [card.number for card in found.cards if not card.taken] == [0]


def test_more_cards_are_further_machines() -> None:
    """A job of 32 cards is planned on four machines like this one, with the network between."""
    found = planner.plan(held(3_000), lora("300b", 8, 4)).job

    assert speed.link(found, 8) == 196e9
    assert speed.link(found, 4, 8) == ASCEND.net_gbs * 1e9
    assert "links: further machines like this one, 25 GB/s between machines" in found.assumed


def test_another_vendors_job() -> None:
    """A job for cards that are not here cannot be told, not judged on others."""
    with pytest.raises(UntoldError, match="no nvidia card"):
        planner.plan(held(1), job("qwen-7b", device=A100))


@pytest.mark.parametrize(
    ("said", "missing"),
    [({"cards": 4}, "--cards 4 without --device"), ({"memory_gib": 32.0}, "--memory-gib 32 without --device")],
)
def test_half_a_description(said: dict[str, float], missing: str) -> None:
    """Cards or their memory without their vendor, on a machine that has none, name the option that is missing."""
    with pytest.raises(UsageError, match=missing):
        machines.of_facts(Facts(), said=said)
    with pytest.raises(UntoldError, match="no accelerator"):
        machines.of_facts(Facts())


def test_a_card_of_no_table() -> None:
    """A card that the table lacks is planned as a usual one, and stays its vendor's."""
    cards = (Device(index=0, name="Tesla P100-PCIE-16GB", memory_total_mib=16384, memory_used_mib=300),)
    machine = machines.of_facts(Facts(vendors=(VendorFacts(VENDORS["nvidia"], devices=cards),)))

    assert (machine.device.vendor, machine.memory_gib, machine.cards) == ("nvidia", 16, 1)


def command(machine: str, wishes: tuple[str, ...], *argv: str) -> subprocess.CompletedProcess[str]:
    """envcheck plan on a simulated machine."""
    ready = faults.apply(described.load(machine, None), [faults.asked(wish) for wish in wishes])
    with session.written(ready, None) as folder:
        return subprocess.run(
            [sys.executable, "-m", "envcheck", "plan", *argv],
            cwd=ROOT, capture_output=True, text=True, timeout=120, env={**os.environ, "ENVCHECK_SYSROOT": str(folder)},
        )  # fmt: skip


JOB = ("--model", "qwen-7b", "--method", "lora", "--sharding", "none", "--seq-len", "2048")


def test_fullest_card_on_screen() -> None:
    """The card that somebody holds is named, with what it costs; the cards that it names instead do."""
    done = command("atlas-800t-a2", ("memory-held=55000",), *JOB)

    assert done.returncode == 1
    assert "fullest   card 0: " in done.stdout
    assert "; on 7 of 8 cards it fits: --cards 7 leaves the rest out" in done.stdout
    assert command("atlas-800t-a2", ("memory-held=55000",), *JOB, "--cards", "7").returncode == 0


def test_every_card_for_programs() -> None:
    """--json lists each card's free memory and verdict; the one that decides is marked."""
    done = command("atlas-800t-a2", ("memory-held=55000",), *JOB, "--json")
    document = json.loads(done.stdout)
    first, *others = document["cards"]

    assert (document["verdict"], first["verdict"], first["decides"]) == ("does-not-fit", "does-not-fit", True)
    assert {card["verdict"] for card in others} == {"fits"}
    assert min(card["free_gib"] for card in others) - first["free_gib"] == pytest.approx(55_000 / 1024, abs=1)


def test_search_says_step_and_links() -> None:
    """The ranking says which step it timed, and over which links."""
    argv = ("--model", "qwen2.5-7b", "--method", "sft", "--framework", "megatron", "--search")
    done = command("atlas-200t-a2-box16", (), *argv, "--grad-accum", "2")
    document = json.loads(command("atlas-200t-a2-box16", (), *argv, "--json").stdout)

    assert "samples of " in done.stdout
    assert "8 cards HCCS 196 GB/s, 16 cards SYS 9.6 GB/s" in done.stdout
    assert document["step_samples"] == speed.SAMPLES
    assert {"ranks": 8, "apart": 1, "gbs": 196, "kind": "HCCS"} in document["links"]


@pytest.mark.parametrize(
    ("faults_here", "said"),
    [((), ""), (("card-lost=3",), "7 cards, though more are in it: lspci 8"), (("truncated",), "was cut off")],
)
def test_cards_that_are_not_listed(faults_here: tuple[str, ...], said: str) -> None:
    """A plan of the cards that the tool lists says that there are more, unless a number was asked for."""
    with simulated("atlas-800t-a2", list(faults_here)) as here:
        told = facts.gather(here, "npu")

    assert said in machines.of_facts(told, "npu").said and bool(machines.of_facts(told, "npu").said) == bool(said)
    assert machines.of_facts(told, "npu", 4).said == ""
