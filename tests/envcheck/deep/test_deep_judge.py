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
from envcheck.deep.cards import Card, Chosen, Pair
from envcheck.deep.interpreter import Said
from envcheck.deep.judge import judged
from envcheck.deep.measurements import Bench
from launch.catalogue import links
from tests.envcheck.deep.deep_parts import cards

NOT_APPLICABLE, OK, BLOCKED, UNKNOWN, WARN, FAIL = Status
PRODUCT = {"dtype": "bfloat16", "worst": 0.003, "square": 0.0017, "drift": 0.0, "rows": 8192, "tflops": 700.0}
HELD = {"wanted_mib": 1024, "mib": 1024, "wrong": 0, "pieces": 16}
COPIED = {"pinned": True, "same": True, "mib": 256, "up_gbs": 52.0, "down_gbs": 50.0}


def said(test: str, figures: Mapping[str, Any], *each: Mapping[str, Any]) -> tuple[Said, ...]:
    """One card for each change of the figures."""
    return tuple(Said(test, (n,), {**figures, **change}) for n, change in enumerate(each))


def told(name: str, some: tuple[Said, ...], count: int = 4, kind: str = "a card", **more: Any) -> list[Finding]:
    chosen = cards("nvidia", count)
    chosen = replace(chosen, cards=tuple(replace(card, name=kind) for card in chosen.cards), **more)
    return judged(Bench(chosen, some, {"matmul": 0.1, "copy": 0.3}, links.kinds(), patience_s=120.0), {name})[name]


def verdicts(found: list[Finding]) -> list[Status]:
    return [f.status for f in found]


def test_alike() -> None:
    """Cards that do the same are one good finding with their figures."""
    (found,) = told("deep.matmul", said("matmul", PRODUCT, {}, {"tflops": 690.0}, {"tflops": 720.0}, {}))

    assert found.status is OK
    assert found.seen == "4 cards at 700 TFLOP/s in bf16 (690 to 720)"


def test_an_outlier() -> None:
    """A card that is slower by more than a tenth is named, one by less is not."""
    (found,) = told("deep.matmul", said("matmul", PRODUCT, {}, {"tflops": 620.0}, {"tflops": 640.0}, {}))

    assert found.status is WARN
    assert "device 1 620, where 700" in found.seen
    assert "device 2" not in found.seen


def test_of_two_the_slower() -> None:
    """Of two cards the slower one is the outlier."""
    (found,) = told("deep.matmul", said("matmul", PRODUCT, {"tflops": 500.0}, {}), 2)

    assert "device 0 500, where 700" in found.seen


@pytest.mark.parametrize(
    "change",
    ({"worst": 0.02}, {"square": 0.01}, {"drift": 0.5}, {"worst": float("nan")}),
    ids=("one value", "all values", "from time to time", "no number"),
)
def test_wrong_products(change: dict[str, float]) -> None:
    """A product beyond what rounding explains is a failure of that card, whichever way it is wrong."""
    found = told("deep.matmul", said("matmul", PRODUCT, {}, change, {}, {}))

    assert verdicts(found) == [FAIL, OK]
    assert found[0].seen.startswith("device 1: a product is wrong")
    assert found[1].seen.startswith("3 cards at")


def test_rounding_is_allowed() -> None:
    """What two roundings to bf16 leave is right."""
    found = told("deep.matmul", said("matmul", PRODUCT, *[{"worst": 2 * 2**-8, "square": 2**-8}] * 4))

    assert verdicts(found) == [OK]


def test_once_more() -> None:
    """A second measurement mends a speed, and no error: what was wrong once is wrong."""
    first = Said("matmul", (1,), {**PRODUCT, "tflops": 100.0, "worst": 0.5})
    second = Said("matmul", (1,), {**PRODUCT, "tflops": 690.0})
    lost = Said("matmul", (1,), error="gone", lost=True)
    both = judge.better(first, second)

    assert judge.slow(Bench(cards("nvidia", 4), (*said("matmul", PRODUCT, {}, {}, {}, {})[2:], first))) == {
        "matmul": [1]
    }
    assert (both.figures["tflops"], both.figures["worst"]) == (690.0, 0.5)
    for one, other in ((0.001, nan), (nan, 0.001)):
        some = [Said("matmul", (1,), {**PRODUCT, "worst": worst}) for worst in (one, other)]
        assert isnan(judge.better(*some).figures["worst"])
    assert judge.better(first, lost) is judge.better(lost, second) is lost


def test_below_what_is_published() -> None:
    """All cards alike and all slow: the floor tells, with its source."""
    found = told("deep.matmul", said("matmul", PRODUCT, *[{"tflops": 300.0}] * 4), kind="NVIDIA H200")

    assert verdicts(found) == [WARN]
    assert "593 are to be had" in found[0].seen
    assert "60 % of 989" in found[0].evidence[-1]


def test_no_bf16() -> None:
    """Cards that multiply in float32 alone are warned of, and not measured by a floor that is of bf16."""
    change = {"dtype": "float32", "why": "no kernel", "tflops": 20.0}
    found = told("deep.matmul", said("matmul", PRODUCT, *[change] * 4), kind="NVIDIA H200")

    assert verdicts(found) == [WARN, OK]
    assert "no kernel" in found[0].seen


@pytest.mark.parametrize("name", ("matmul", "memory", "copy", "peer"))
@pytest.mark.parametrize(("hung", "words"), ((True, "did not answer in 120 s"), (False, "ended by SIGBUS")))
def test_lost(name: str, hung: bool, words: str) -> None:
    """A hang and a crash are failures of their card, with the last words of the process."""
    lost = Said(name, (2,), error="the process was ended by SIGBUS", hung=hung, lost=True, evidence=("last words",))
    found = told(f"deep.{name}", (lost,))

    assert found[0].status is FAIL
    assert "device 2" in found[0].seen and words in found[0].seen
    assert "last words" in found[0].evidence


@pytest.mark.parametrize("name", ("memory", "copy", "peer", "allreduce"))
def test_after_a_loss(name: str) -> None:
    """What was not tested since a process was lost before follows from that, and is not green."""
    (found,) = told(f"deep.{name}", (Said("matmul", (0,), error="x", lost=True),))

    assert found.status is BLOCKED
    assert found.blocked_by == "deep.matmul"


def test_memory() -> None:
    """Right, wrong and not to be had: each card is told for itself."""
    found = told("deep.memory", said("memory", HELD, {}, {"wrong": 2}, {"mib": 64, "full": "out of memory"}))

    assert verdicts(found) == [FAIL, WARN, OK]
    assert "device 1: 2 of 16 pieces" in found[0].seen
    assert "device 2: 64 MiB of 1 GiB" in found[1].seen
    assert found[2].seen == "1 GiB of device 0 filled and read back"


def test_nothing_filled() -> None:
    """A card without a piece to fill is not known to be well."""
    (found,) = told("deep.memory", said("memory", HELD, {"mib": 0, "pieces": 0}), 1)

    assert found.status is UNKNOWN


def test_copies() -> None:
    """Both ways are judged; a slot of half the width is an outlier, or where all are so, below the floor."""
    one = told("deep.copy", said("copy", COPIED, {}, {}, {"up_gbs": 24.0}, {}))
    every = told("deep.copy", said("copy", COPIED, *[{"up_gbs": 24.0}] * 4), kind="NVIDIA H200")

    assert verdicts(one) == [WARN, OK]
    assert "device 2 24, where 52" in one[0].seen
    assert verdicts(every) == [WARN, OK]
    assert "37.8 are to be had" in every[0].seen


def test_pageable_copies_have_no_floor() -> None:
    """Without page-locked memory the figure says nothing of the slot: it is told, not judged."""
    slow = {"pinned": False, "up_gbs": 5.0, "down_gbs": 4.0}
    found = told("deep.copy", said("copy", COPIED, *[slow] * 4), kind="NVIDIA H200")

    assert verdicts(found) == [OK, OK]
    assert "pageable" in found[0].seen


def test_changed_on_the_way() -> None:
    """What arrives otherwise is a failure, and its speed is not praised."""
    found = told("deep.copy", said("copy", COPIED, {}, {"same": False}, {}, {}))

    assert verdicts(found) == [FAIL, OK, OK]
    assert "device 1" in found[0].seen
    assert found[1].seen.startswith("3 cards")


@pytest.mark.parametrize(("gbs", "status"), ((240.0, OK), (100.0, WARN)))
def test_links(gbs: float, status: Status) -> None:
    """A pair is held against what its links are made for."""
    some = (Said("peer", (0, 3), {"mib": 256, "same": True, "gbs": gbs}),)
    (found,) = told("deep.peer", some, pairs=(Pair(0, 3, "NV18"),))

    assert found.status is status
    assert found.seen == f"NV18, devices 0, 3: {gbs:.3g} GB/s"


def ranks(count: int, spent: float, seed: int = 5) -> tuple[Said, ...]:
    """Right answers, whose sums are those of a seed and a ramp from 1 to 7."""
    sums = [float(count * (count + 1) // 2 * (seed + n % 7 + 1)) for n in range(judge.SUMS)]
    figures = {"world": count, "seed": seed, "half": 1.5, "sums": sums, "wrong": 0, "mib": 256, "s": spent}
    return tuple(Said("allreduce", (n,), {"rank": n, **figures}) for n in range(count))


@given(st.integers(1, 999), st.integers(2, 16), st.data())
def test_any_wrong_answer_is_wrong(seed: int, count: int, data: st.DataObject) -> None:
    """The right answers pass; one that lacks or changes any of its values, in any process, does not."""
    rank, key = (
        data.draw(st.integers(0, count - 1)),
        data.draw(st.sampled_from(("rank", "world", "half", "sums", "wrong"))),
    )
    answers = list(ranks(count, 0.001, seed))

    assert judge.wrong_sums(answers) == {}
    for changed in ({}, {key: 77}):
        others = {k: v for k, v in answers[rank].figures.items() if k != key}
        wrong = judge.wrong_sums(
            [*answers[:rank], replace(answers[rank], figures={**others, **changed}), *answers[rank + 1 :]]
        )
        assert list(wrong) == [rank]
        assert f"process {rank} says {key} " in wrong[rank]


def test_bus_bandwidth() -> None:
    """Of eight ranks the data goes 2 x 7/8 times over the bus, as nccl-tests counts."""
    (found,) = told("deep.allreduce", ranks(8, 0.001), 8)

    assert found.status is OK
    assert f"{256 * 2**20 / 0.001 / 1e9 * 1.75:.3g} GB/s of bus bandwidth" in found.seen


@pytest.mark.parametrize(("link", "status"), (("NV18", WARN), ("SYS", OK)))
def test_bus_below_the_links(link: str, status: Status) -> None:
    """The floor counts where all cards are tied by the links that it is of."""
    (found,) = told("deep.allreduce", ranks(8, 0.01), 8, "NVIDIA H200", pairs=(Pair(0, 1, link),))

    assert found.status is status


def test_wrong_sums() -> None:
    """Ranks with wrong sums are named, and no bandwidth is told of a sum that is none."""
    right, other = ranks(2, 0.001)
    some = (right, replace(other, figures={**other.figures, "wrong": 5}))
    (found,) = told("deep.allreduce", some, 2)

    assert found.status is FAIL
    assert found.seen == "rank 1 holds a wrong sum"


def test_not_all_are_free() -> None:
    """With a card in use nothing is added up, and that is told as not known."""
    chosen = Chosen("nvidia", (Card(0, "0"), Card(1, "1", users=("python (pid 1)",))))
    found = judged(Bench(chosen), {"deep.allreduce"})["deep.allreduce"]

    assert verdicts(found) == [UNKNOWN]
    assert "device 1" in found[0].seen


@pytest.mark.parametrize("name", ("copy", "peer", "allreduce"))
def test_one_card(name: str) -> None:
    """What one card, or the processor, cannot do does not apply."""
    single = cards("cpu" if name == "copy" else "nvidia", 1)
    found = judged(Bench(single), {f"deep.{name}"})[f"deep.{name}"]

    assert verdicts(found) == [NOT_APPLICABLE]
    assert not found[0].blocked_by


def test_tolerances_in_order() -> None:
    """A mean can be no larger than the largest; and what rounding to bf16 gives is below both."""
    assert 2**-8 < judge.SQUARE < judge.WORST
    assert baselines.PEER_SHARE < 1
