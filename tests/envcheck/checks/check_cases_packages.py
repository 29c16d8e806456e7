# ruff: noqa: E501  the table of cases is read across, one line a check
"""Cases of the checks of packages that start well and fail late."""

from __future__ import annotations

from dataclasses import replace

from envcheck.collect.questions import LIBAIO
from envcheck.core.facts import Facts
from envcheck.core.model import Outcome
from tests.envcheck.checks.check_parts import NO_ENV, NO_PACKS, WARN, Case, Change, answer, both, env, packs

GONE = both(*(answer(question.key, outcome=Outcome.EMPTY) for question in LIBAIO))


def unmet(*lines: str) -> Change:
    def change(facts: Facts) -> Facts:
        assert facts.packages
        return replace(facts, packages=replace(facts.packages, unmet=lines))

    return change


def unlooked(facts: Facts) -> Facts:
    assert facts.packages
    return replace(facts, packages=replace(facts.packages, unmet=None))


# As in test_checks.py: check -> (vendor, wrong and how bad, absent, unreadable).
CASES: dict[str, Case] = {
    "python.requirements": ("npu", unmet("vllm 0.9.1 wants torch==2.7.0, 2.5.1 is there"), WARN, NO_PACKS, unlooked),
    "python.bitsandbytes": ("npu", packs(bitsandbytes="0.45.0"), WARN, packs(torch=None), NO_PACKS),
    "python.autoload": ("npu", env(TORCH_DEVICE_BACKEND_AUTOLOAD="0"), WARN, packs(torch=None), NO_ENV),
    "python.megatron": ("npu", env(PYTHONPATH="/x/Megatron-LM:/megatron"), WARN, env(MEGATRON_LM_PATH=None), NO_ENV),
    "python.libaio": ("npu", GONE, WARN, packs(deepspeed=None), both(*(answer(q.key, outcome=Outcome.FAILED) for q in LIBAIO))),
}  # fmt: skip
