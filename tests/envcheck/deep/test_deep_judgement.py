"""What figures mean to doctor --deep: right, wrong, absent and unreadable ones, of cards, pairs and all together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isnan, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core.model import Finding, Status
from envcheck.deep import baselines, judge
from envcheck.deep.card_selection import CandidateCard, CardPair, CardSelection
from envcheck.deep.interpreter import DeepResult
from envcheck.deep.judge import judge_tests
from envcheck.deep.measurements import DeepMeasurements
from launch.catalogue import links
from tests.envcheck.deep.deep_parts import make_cards

NOT_APPLICABLE, OK, BLOCKED, UNKNOWN, WARN, FAIL = Status
PRODUCT = {"dtype": "bfloat16", "worst": 0.003, "square": 0.0017, "drift": 0.0, "rows": 8192, "tflops": 700.0}
HELD = {"wanted_mib": 1024, "mib": 1024, "wrong": 0, "pieces": 16}
COPIED = {"pinned": True, "same": True, "mib": 256, "up_gbs": 52.0, "down_gbs": 50.0}


def make_outputs(test: str, figures: Mapping[str, Any], *each: Mapping[str, Any]) -> tuple[DeepResult, ...]:
    """One card for each change of the figures."""
    return tuple(DeepResult(test, (n,), {**figures, **change}) for n, change in enumerate(each))


def judge_outputs(
    name: str, some: tuple[DeepResult, ...], count: int = 4, kind: str = "a card", **more: Any
) -> list[Finding]:
    chosen = make_cards("nvidia", count)
    chosen = replace(chosen, cards=tuple(replace(card, name=kind) for card in chosen.cards), **more)
    return judge_tests(
        DeepMeasurements(chosen, some, {"matmul": 0.1, "copy": 0.3}, links.load_link_kinds(), patience_s=120.0), {name}
    )[name]


def list_statuses(found: list[Finding]) -> list[Status]:
    return [f.status for f in found]


def test_alike() -> None:
    """Cards with similar results share one OK finding with their figures."""
    (found,) = judge_outputs(
        "deep.matmul", make_outputs("matmul", PRODUCT, {}, {"tflops": 690.0}, {"tflops": 720.0}, {})
    )

    assert found.status is OK
    assert found.seen == "4 cards: 700 TFLOP/s in bf16 (690 to 720)"


def test_an_outlier() -> None:
    """A card that is slower by more than a tenth is named, one by less is not."""
    (found,) = judge_outputs(
        "deep.matmul", make_outputs("matmul", PRODUCT, {}, {"tflops": 620.0}, {"tflops": 640.0}, {})
    )

    assert found.status is WARN
    assert found.seen.startswith("device 1 at 620: more than 10 % slower than the median of 700 TFLOP/s")
    assert "device 2" not in found.seen


def test_of_two_the_slower() -> None:
    """Of two cards the slower one is the outlier."""
    (found,) = judge_outputs("deep.matmul", make_outputs("matmul", PRODUCT, {"tflops": 500.0}, {}), 2)

    assert found.seen.startswith("device 0 at 500: more than 10 % slower than the median of 700 ")


@pytest.mark.parametrize(
    "change",
    ({"worst": 0.02}, {"square": 0.01}, {"drift": 0.5}, {"worst": float("nan")}),
    ids=("one value", "all values", "from time to time", "no number"),
)
def test_wrong_products(change: dict[str, float]) -> None:
    """A product beyond what rounding explains is a failure of that card, whichever way it is wrong."""
    found = judge_outputs("deep.matmul", make_outputs("matmul", PRODUCT, {}, change, {}, {}))

    assert list_statuses(found) == [FAIL, OK]
    assert found[0].seen.startswith("device 1")
    assert found[1].seen.startswith("3 cards: 700 TFLOP/s")


def test_rounding_is_allowed() -> None:
    """What two roundings to bf16 leave is right."""
    found = judge_outputs("deep.matmul", make_outputs("matmul", PRODUCT, *[{"worst": 2 * 2**-8, "square": 2**-8}] * 4))

    assert list_statuses(found) == [OK]


def test_once_more() -> None:
    """A second measurement can replace a slow result, but not a wrong one."""
    first = DeepResult("matmul", (1,), {**PRODUCT, "tflops": 100.0, "worst": 0.5})
    second = DeepResult("matmul", (1,), {**PRODUCT, "tflops": 690.0})
    lost = DeepResult("matmul", (1,), error="gone", lost=True)
    both = judge.merge_results(first, second)

    assert judge.find_slow_cards(
        DeepMeasurements(make_cards("nvidia", 4), (*make_outputs("matmul", PRODUCT, {}, {}, {}, {})[2:], first))
    ) == {"matmul": [1]}
    assert (both.figures["tflops"], both.figures["worst"]) == (690.0, 0.5)
    for one, other in ((0.001, nan), (nan, 0.001)):
        some = [DeepResult("matmul", (1,), {**PRODUCT, "worst": worst}) for worst in (one, other)]
        assert isnan(judge.merge_results(*some).figures["worst"])
    assert judge.merge_results(first, lost) is judge.merge_results(lost, second) is lost


def test_below_what_is_published() -> None:
    """When all cards are equally slow, the published limit decides, and its source is printed."""
    found = judge_outputs("deep.matmul", make_outputs("matmul", PRODUCT, *[{"tflops": 300.0}] * 4), kind="NVIDIA H200")

    assert list_statuses(found) == [WARN]
    assert "expected at least 593" in found[0].seen
    assert "60 % of 989" in found[0].evidence[-1]


def test_no_bf16() -> None:
    """Cards measured in float32 only get a warning and are not compared with a bf16 limit."""
    change = {"dtype": "float32", "why": "no kernel", "tflops": 20.0}
    found = judge_outputs("deep.matmul", make_outputs("matmul", PRODUCT, *[change] * 4), kind="NVIDIA H200")

    assert list_statuses(found) == [WARN, OK]
    assert "no kernel" in found[0].seen


@pytest.mark.parametrize("name", ("matmul", "memory", "copy", "peer"))
@pytest.mark.parametrize(("hung", "words"), ((True, "no response within 120 s"), (False, "terminated by SIGBUS")))
def test_lost(name: str, hung: bool, words: str) -> None:
    """A hang and a crash are failures of their card, with the last output of the process."""
    lost = DeepResult(name, (2,), error="process terminated by SIGBUS", hung=hung, lost=True, evidence=("last words",))
    found = judge_outputs(f"deep.{name}", (lost,))

    assert found[0].status is FAIL
    assert "device 2" in found[0].seen and words in found[0].seen
    assert "last words" in found[0].evidence


@pytest.mark.parametrize("name", ("memory", "copy", "peer", "allreduce"))
def test_after_a_loss(name: str) -> None:
    """Tests skipped after a process was lost are reported as a consequence of it and do not pass."""
    (found,) = judge_outputs(f"deep.{name}", (DeepResult("matmul", (0,), error="x", lost=True),))

    assert found.status is BLOCKED
    assert found.blocked_by == "deep.matmul"


def test_memory() -> None:
    """Memory correct, corrupt, or not allocated: reported per card."""
    found = judge_outputs(
        "deep.memory", make_outputs("memory", HELD, {}, {"wrong": 2}, {"mib": 64, "full": "out of memory"})
    )

    assert list_statuses(found) == [FAIL, WARN, OK]
    assert "device 1: 2 of 16 blocks" in found[0].seen
    assert "device 2: only 64 MiB of 1 GiB" in found[1].seen
    assert found[2].seen == "1 GiB of device 0 filled and read back"


def test_nothing_filled() -> None:
    """A card on which no memory was filled is UNKNOWN."""
    (found,) = judge_outputs("deep.memory", make_outputs("memory", HELD, {"mib": 0, "pieces": 0}), 1)

    assert found.status is UNKNOWN


def test_copies() -> None:
    """Both ways are judged; a slot of half the width is an outlier, or where all are so, below the floor."""
    one = judge_outputs("deep.copy", make_outputs("copy", COPIED, {}, {}, {"up_gbs": 24.0}, {}))
    every = judge_outputs("deep.copy", make_outputs("copy", COPIED, *[{"up_gbs": 24.0}] * 4), kind="NVIDIA H200")

    assert list_statuses(one) == [WARN, OK]
    assert one[0].seen.startswith("device 2 at 24: more than 30 % slower than the median of 52 GB/s host to card")
    assert list_statuses(every) == [WARN, OK]
    assert "expected at least 37.8" in every[0].seen


def test_pageable_copies_have_no_floor() -> None:
    """Rates measured without page-locked memory are reported but not compared with a limit."""
    slow = {"pinned": False, "up_gbs": 5.0, "down_gbs": 4.0}
    found = judge_outputs("deep.copy", make_outputs("copy", COPIED, *[slow] * 4), kind="NVIDIA H200")

    assert list_statuses(found) == [OK, OK]
    assert "pageable" in found[0].seen


def test_changed_on_the_way() -> None:
    """Corrupted data is a failure, and its rate is not reported as good."""
    found = judge_outputs("deep.copy", make_outputs("copy", COPIED, {}, {"same": False}, {}, {}))

    assert list_statuses(found) == [FAIL, OK, OK]
    assert "device 1" in found[0].seen
    assert found[1].seen.startswith("3 cards: 52 GB/s")


@pytest.mark.parametrize(("gbs", "status"), ((240.0, OK), (100.0, WARN)))
def test_links(gbs: float, status: Status) -> None:
    """A pair is held against what its links are made for."""
    some = (DeepResult("peer", (0, 3), {"mib": 256, "same": True, "gbs": gbs}),)
    (found,) = judge_outputs("deep.peer", some, pairs=(CardPair(0, 3, "NV18"),))

    assert found.status is status
    assert found.seen == f"NV18, devices 0, 3: {gbs:.3g} GB/s"


def make_rank_outputs(count: int, spent: float, seed: int = 5) -> tuple[DeepResult, ...]:
    """Correct results: sums of a seed and a ramp from 1 to 7."""
    sums = [float(count * (count + 1) // 2 * (seed + n % 7 + 1)) for n in range(judge.SUMS)]
    figures = {"world": count, "seed": seed, "half": 1.5, "sums": sums, "wrong": 0, "mib": 256, "s": spent}
    return tuple(DeepResult("allreduce", (n,), {"rank": n, **figures}) for n in range(count))


@given(st.integers(1, 999), st.integers(2, 16), st.data())
def test_any_wrong_answer_is_wrong(seed: int, count: int, data: st.DataObject) -> None:
    """The expected replies pass; a missing or changed value in any process fails."""
    rank, key = (
        data.draw(st.integers(0, count - 1)),
        data.draw(st.sampled_from(("rank", "world", "half", "sums", "wrong"))),
    )
    answers = list(make_rank_outputs(count, 0.001, seed))

    assert judge.find_wrong_sums(answers) == {}
    for changed in ({}, {key: 77}):
        others = {k: v for k, v in answers[rank].figures.items() if k != key}
        wrong = judge.find_wrong_sums(
            [*answers[:rank], replace(answers[rank], figures={**others, **changed}), *answers[rank + 1 :]]
        )
        assert list(wrong) == [rank]
        assert wrong[rank].startswith(f"process {rank}: {key}: expected ")


def test_bus_bandwidth() -> None:
    """With eight ranks the bus carries 2 x 7/8 of the data, as nccl-tests counts."""
    (found,) = judge_outputs("deep.allreduce", make_rank_outputs(8, 0.001), 8)

    assert found.status is OK
    assert f"{256 * 2**20 / 0.001 / 1e9 * 1.75:.3g} GB/s bus bandwidth" in found.seen


@pytest.mark.parametrize(("link", "status"), (("NV18", WARN), ("SYS", OK)))
def test_bus_below_the_links(link: str, status: Status) -> None:
    """The floor counts where all cards are tied by the links that it is of."""
    (found,) = judge_outputs(
        "deep.allreduce", make_rank_outputs(8, 0.01), 8, "NVIDIA H200", pairs=(CardPair(0, 1, link),)
    )

    assert found.status is status


def test_wrong_sums() -> None:
    """Ranks with wrong sums are named, and no bandwidth is reported."""
    right, other = make_rank_outputs(2, 0.001)
    some = (right, replace(other, figures={**other.figures, "wrong": 5}))
    (found,) = judge_outputs("deep.allreduce", some, 2)

    assert found.status is FAIL
    assert found.seen == "rank 1 has a wrong all-reduce sum"


def test_not_all_are_free() -> None:
    """With a card in use the all-reduce is skipped and reported as UNKNOWN."""
    chosen = CardSelection("nvidia", (CandidateCard(0, "0"), CandidateCard(1, "1", users=("python (pid 1)",))))
    found = judge_tests(DeepMeasurements(chosen), {"deep.allreduce"})["deep.allreduce"]

    assert list_statuses(found) == [UNKNOWN]
    assert "device 1" in found[0].seen


@pytest.mark.parametrize("name", ("copy", "peer", "allreduce"))
def test_one_card(name: str) -> None:
    """What one card, or the processor, cannot do does not apply."""
    single = make_cards("cpu" if name == "copy" else "nvidia", 1)
    found = judge_tests(DeepMeasurements(single), {f"deep.{name}"})[f"deep.{name}"]

    assert list_statuses(found) == [NOT_APPLICABLE]
    assert not found[0].blocked_by


def test_tolerances_in_order() -> None:
    """The mean tolerance is not above the maximum tolerance, and bf16 rounding error is below both."""
    assert 2**-8 < judge.SQUARE < judge.WORST
    assert baselines.PEER_SHARE < 1
