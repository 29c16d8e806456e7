"""The planner on published configurations: verdicts, deciding phases, worked examples."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.model import Device
from envcheck.vendors import VENDORS
from launch import planner
from launch.catalogue import devices, frameworks
from launch.memory import GIB, adapters, uncertainty
from launch.memory.phases import Phase
from launch.memory.planned_job import Adapter, PlannedJob, Precision, Recompute
from launch.planner import machines, option_words, reductions, resolve, search, table_rows
from launch.planner.output.terms import TERMS
from tests.launch.planner.planner_helpers import A100, ILUVATAR, MEGATRON, make_job, make_lora_job

OFFLOADED = frozenset({"optimizer"})


def tensors_gib(phase: Phase) -> float:
    """Return the GiB of the phase without Paddle's own buffers."""
    return (phase.total - dict(phase.terms).get("framework buffers", 0.0)) / GIB


def find_peak(job: PlannedJob, name: str) -> float:
    return max(tensors_gib(p) for p in planner.plan(None, job).phases if p.name == name)


@pytest.mark.parametrize(
    ("pp", "cards", "verdict"),
    [(16, 128, "fits"), (20, 160, "fits"), (12, 96, "does-not-fit")],
)
def test_300b_sft_on_64_gib(pp: int, cards: int, verdict: str) -> None:
    """300B SFT with plain offload fits on 128 and 160 cards of 64 GiB, not on 96; the optimizer step decides."""
    answer = planner.plan(None, make_job("300b", 8, pp, cards, offload=OFFLOADED, sharding="dist_opt"))

    assert answer.verdict == verdict
    assert answer.deciding.name == "optimizer step"


def test_300b_sft_worked_example() -> None:
    """128 cards: 18.6 GiB of tensors while computing, 48.5 in the optimizer step (research note, example A)."""
    asked = make_job("300b", 8, 16, offload=OFFLOADED)

    assert find_peak(asked, "optimizer step") == pytest.approx(48.5, rel=0.01)
    assert find_peak(asked, "backward") == pytest.approx(18.6, rel=0.08)


def test_plain_offload_is_worthless_at_this_length() -> None:
    """The reload before the step makes the peak with plain offload almost that without it."""
    with_it, without = (
        planner.plan(None, make_job("300b", 8, 16, offload=o)).need_gib for o in (OFFLOADED, frozenset[str]())
    )

    assert abs(without - with_it) < 4


def test_96_cards_of_80_gib_are_the_vendors_minimum() -> None:
    """The same PP12 fits on 80 GiB cards."""
    asked = make_job("300b", 8, 12, offload=OFFLOADED, device=A100, memory_gib=80)

    assert planner.plan(None, asked).verdict == "fits"


def test_tensorwise_offload_takes_40_cards() -> None:
    """Tensor-wise offload with 16-bit moments: 6 bytes a parameter, PP5 of 80 GiB cards (ernie-002)."""
    asked = make_job("300b", 8, 5, offload=frozenset({"tensorwise"}), precision=Precision(2, 4, 4, 4))
    answer = planner.plan(None, replace(asked, device=A100, memory_gib=80))

    assert answer.verdict == "fits"
    assert answer.reading_gib == pytest.approx(52, abs=3)


@pytest.mark.parametrize(("pp", "verdict"), [(2, "fits"), (1, "does-not-fit")])
def test_300b_lora(pp: int, verdict: str) -> None:
    """300B LoRA fits on 16 cards of 64 GiB and not on 8."""
    assert planner.plan(None, make_lora_job("300b", 8, pp, offload=OFFLOADED)).verdict == verdict


def test_300b_lora_worked_example() -> None:
    """16 cards: weights 36.6 GiB and adapters of 1.04e9 parameters on the last stage (example B)."""
    answer = planner.plan(None, make_lora_job("300b", 8, 2))
    last = next(p for p in answer.phases if p.stage == 1 and p.name == "load")

    assert dict(last.terms)["weights"] / GIB == pytest.approx(36.6, abs=0.4)
    assert dict(last.terms)["adapters"] / GIB == pytest.approx(5.8, abs=0.3)


@pytest.mark.parametrize(("offload", "each"), [((), 18), (("optimizer",), 6), (("params",), 12), (("tensorwise",), 6)])
def test_adapters_are_a_term(offload: tuple[str, ...], each: int) -> None:
    """Adapters are a term with 6 bytes of weight and 12 of gradient and moments per parameter.

    Optimizer offload removes the 12, parameter offload the 6; the base model has no moments.
    """
    asked = make_lora_job("21b", 4, 4, offload=frozenset(offload))
    count = sum(
        adapters.count_adapter_params(asked.model, asked.layout, asked.adapter, 0, asked.framework.fused_adapters)
    )
    terms = next(dict(p.terms) for p in planner.plan(None, asked).phases if p.name == "backward")

    assert terms["adapters"] == pytest.approx(each * count)
    assert terms["moments"] == 0


def test_every_term_is_explained() -> None:
    """Each term of a plan and its meter has a unique letter and colour, a formula, a source, and an uncertainty."""
    asked = make_lora_job("21b", 4, 4)
    answer = planner.plan(None, asked)
    tensors = {name for phase in answer.phases for name, _ in phase.terms}

    assert tensors | {name for name, _ in answer.shown.terms} <= TERMS.keys()
    assert tensors - {"activations"} <= uncertainty.SHARES.keys()
    assert len({term.letter for term in TERMS.values()}) == len({term.colour for term in TERMS.values()}) == len(TERMS)


@pytest.mark.parametrize(
    ("tp", "pp", "gib", "verdict"),
    [(4, 4, 11, "fits"), (4, 2, 15, "fits"), (4, 1, 23, "fits"), (2, 1, 36, "does-not-fit")],
)
def test_21b_lora_on_dies_of_32_gib(tp: int, pp: int, gib: float, verdict: str) -> None:
    """21B LoRA needs 11, 15, 23 GiB on 16, 8, 4 dies, and 36 on 2, which does not fit (example C)."""
    answer = planner.plan(None, make_lora_job("21b", tp, pp, device=ILUVATAR, memory_gib=32, fused_loss=False))

    assert answer.verdict == verdict
    assert answer.reading_gib == pytest.approx(gib, abs=1)


def test_21b_lora_without_recompute() -> None:
    """Without recompute the first stage keeps four micro batches; about 24 of 32 GiB (example C)."""
    asked = make_lora_job("21b", 4, 4, device=ILUVATAR, memory_gib=32, fused_loss=False, recompute=Recompute("none"))

    assert planner.plan(None, asked).need_gib == pytest.approx(24, rel=0.2)


def test_the_first_stage_holds_most_micro_batches() -> None:
    """1F1B: activations fall from stage to stage."""
    answer = planner.plan(None, make_lora_job("21b", 4, 4, recompute=Recompute("none")))
    kept = [dict(p.terms)["activations"] for p in answer.phases if p.name == "forward and loss"]

    assert kept == sorted(kept, reverse=True)
    assert kept[0] > 3.5 * kept[3]


def test_more_of_anything_never_needs_less() -> None:
    """Longer sequences and larger batches never need less memory."""
    base = make_lora_job("21b", 4, 1)
    needs = [planner.plan(None, replace(base, seq_len=n)).deciding.total for n in (1024, 2048, 8192, 65536)]
    batches = [planner.plan(None, replace(base, micro_batch=n)).deciding.total for n in (1, 2, 8)]

    assert needs == sorted(needs)
    assert batches == sorted(batches)


def test_the_expected_need_is_within_its_bounds() -> None:
    """The expected need is within its bounds."""
    for asked in (make_job("300b", 8, 16), make_lora_job("21b", 4, 4), make_job("0.3b")):
        answer = planner.plan(None, asked)

        assert answer.low <= answer.deciding.total <= answer.high


def test_a_limit_is_not_a_length() -> None:
    """If only the maximum length of samples is known, the reason mentions it."""
    asked = make_lora_job("21b", 1, 1, device=ILUVATAR, memory_gib=32, length_known=False)

    assert "(samples of 8192 tokens)" in planner.plan(None, asked).reason


def test_host_and_disk() -> None:
    """A node needs host memory for 12 bytes of optimizer state per parameter of its shards.

    On disk it needs the weights and 1/16 of a checkpoint with 14 bytes per parameter.
    """
    answer = planner.plan(None, make_job("300b", 8, 16, offload=OFFLOADED))

    assert answer.host == pytest.approx(8 * 12 * 2.896e9, rel=0.01)
    assert answer.disk == pytest.approx((2 + 14 / 16) * 299_484_163_264)


def test_saving_gathers_module_by_module() -> None:
    """While ZeRO-3 writes a checkpoint, its shards stay and the largest module is gathered.

    That is the embedding of Qwen2.5-7B, 152064 x 3584 parameters of 2 bytes.  Saving adapters gathers nothing.
    """
    sharded = make_job("qwen2.5-7b", framework=frameworks.load_frameworks()["generic"], cards=8, sharding="zero3")
    save = dict(planner.plan(None, sharded).phases[-1].terms)
    adapters = planner.plan(None, replace(sharded, method="lora", adapter=Adapter(8))).phases[-1]

    assert planner.plan(None, sharded).phases[-1].name == "save"
    assert save["gathered layers"] == 2 * 152064 * 3584
    assert save["master weights"] == pytest.approx(4 * sharded.model.params / 8)
    assert dict(adapters.terms)["gathered layers"] == 0


def test_hopper_needs_more_workspace() -> None:
    """After a step a Megatron job uses 19.217 GiB on an A100, 19.244 on an H100: cuBLAS needs 28 MiB more there."""
    h100, a100 = (
        planner.plan(
            None, make_job("qwen2.5-7b", framework=frameworks.load_frameworks()["megatron"], device=card, tp=2)
        )
        for card in (devices.find_device("H100"), A100)
    )

    assert (h100.standing - a100.standing) / GIB == pytest.approx(19.244 - 19.217, abs=0.001)


def make_facts(used_mib: int) -> Facts:
    """Return a machine with eight 910B3; another process uses memory of the first."""
    cards = tuple(
        Device(index=n, name="910B3", memory_total_mib=65536, memory_used_mib=used_mib if n == 0 else 3314)
        for n in range(8)
    )
    return Facts(vendors=(VendorFacts(VENDORS["npu"], devices=cards),))


@pytest.mark.parametrize(("used_mib", "verdict"), [(3314, "fits"), (60_000, "does-not-fit")])
def test_a_machine_as_it_is_now(used_mib: int, verdict: str) -> None:
    """The free memory of the fullest card counts, not its size."""
    assert planner.plan(make_facts(used_mib), make_lora_job("qwen-7b", 1, 1, cards=8)).verdict == verdict


def test_qwen_7b_lora_on_one_910b3() -> None:
    """ms-swift's table on a 910B3, rank 8 on q, k, v, about 800 tokens: 24.3 GiB with the idle card's (example D)."""
    asked = make_job(
        "qwen1.5-7b",
        framework=frameworks.load_frameworks()["swift1"],
        precision=Precision(2, 2, 0, 4),
        method="lora",
        adapter=Adapter(8, "qkv"),
        seq_len=800,
        fused_loss=False,
        varying_lengths=True,
    )

    assert planner.plan(None, asked).reading_gib == pytest.approx(24.3, rel=0.03)


@pytest.mark.parametrize("value", ["optimizer", "optimizer:0.5", "activations:8", "activations+params", "none"])
def test_parts_of_an_offload(value: str) -> None:
    """A limited offload is printed as it was given."""
    asked = {"offload": value, "sharding": "stage1"}
    if "params" in value:
        asked["sharding"] = "stage3"
    framework = "axolotl" if "params" in value else "megatron"
    machine = machines.build_described_machine("a100", 8, 80)
    job = resolve.draft_planned_job(machine, "llama-3-8b", "full", asked | {"framework": framework})

    assert option_words.format_offload(job) == ("" if value == "none" else value)


@pytest.mark.parametrize(
    "value", ["optimizer:2", "optimizer:0", "activations:0", "activations:x", "params:0.5", "optimizer:"]
)
def test_numbers_of_an_offload_are_checked(value: str) -> None:
    """A share is above 0 and at most 1, a number of layers at least 1; parameters have neither."""
    with pytest.raises(UsageError, match="invalid number"):
        option_words.parse_offload(value)
    with pytest.raises(UsageError, match=r"--offload .*: invalid number"):
        table_rows.parse_offload({"id": "7", "offload": value})


@pytest.mark.parametrize(
    ("text", "expected"),
    (
        ("optim:0.5,Params", "optimizer:0.5+params"),
        ("optimizer+activation:8", "optimizer+activations:8"),
        ("optimizer(swap)", "tensorwise"),
        ("parameters", "params"),
        ("gpu", "none"),
        ("", "none"),
    ),
)
def test_offload_of_a_row(text: str, expected: str) -> None:
    """The column has the values of --offload and some spellings of its own; other words are ignored."""
    assert table_rows.parse_offload({"offload": text}) == option_words.parse_offload(expected)


def test_a_part_that_is_given_twice() -> None:
    """Two limits of one part are refused: none of them would be better than the other."""
    with pytest.raises(UsageError, match="optimizer is given twice"):
        option_words.parse_offload("optimizer:0.5+optimizer:0.3")


def test_excluded_sequence_parallelism_stays_excluded_in_every_layout() -> None:
    """No layout of a search and no higher degree turns on what the job excludes."""
    job = make_job("qwen2.5-7b", cards=4, framework=MEGATRON, seq_len=512, sequence_parallel=False)
    degrees = [other for _, added, other in reductions.list_degree_changes(job) if "--tp" in added]
    layouts = [other for other in search.list_variants(job) if other.layout.tp > 1]

    assert degrees
    assert layouts
    assert not any(other.splits_sequence for other in (*degrees, *layouts))
    assert not any("--sequence-parallel" in added for _, added, _other in reductions.list_degree_changes(job))
    assert "--no-sequence-parallel" in search.format_layout_options(layouts[0])


def test_sequence_parallelism_that_is_not_given_comes_with_a_tensor_degree() -> None:
    """A search reckons with it."""
    job = make_job("qwen2.5-7b", cards=4, framework=MEGATRON, seq_len=512)

    assert not job.splits_sequence
    assert all(other.splits_sequence for other in search.list_variants(job) if other.layout.tp > 1)
