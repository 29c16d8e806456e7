# ruff: noqa: E501  the table of cases is read across, one line a check
"""Cases of the checks of packages that start well and fail late."""

from __future__ import annotations

from dataclasses import replace

from envcheck.collect.questions import LIBAIO
from envcheck.core.facts import Facts
from envcheck.core.model import Outcome
from tests.envcheck.checks.check_parts import (
    NO_ENV,
    NO_PACKS,
    WARN,
    Case,
    Change,
    apply_changes,
    change_answer,
    change_environment,
    change_packages,
)

GONE = apply_changes(*(change_answer(question.key, outcome=Outcome.EMPTY) for question in LIBAIO))


def set_unmet(*lines: str) -> Change:
    def change(facts: Facts) -> Facts:
        assert facts.packages
        return replace(facts, packages=replace(facts.packages, unmet=lines))

    return change


def drop_unmet(facts: Facts) -> Facts:
    assert facts.packages
    return replace(facts, packages=replace(facts.packages, unmet=None))


# As in test_checks.py: check -> (vendor, wrong and how bad, absent, unreadable).
CASES: dict[str, Case] = {
    "python.requirements": ("npu", set_unmet("vllm 0.9.1 wants torch==2.7.0, 2.5.1 is there"), WARN, NO_PACKS, drop_unmet),
    "python.bitsandbytes": ("npu", change_packages(bitsandbytes="0.45.0"), WARN, change_packages(torch=None), NO_PACKS),
    "python.autoload": ("npu", change_environment(TORCH_DEVICE_BACKEND_AUTOLOAD="0"), WARN, change_packages(torch=None), NO_ENV),
    "python.megatron": ("npu", change_environment(PYTHONPATH="/x/Megatron-LM:/megatron"), WARN, change_environment(MEGATRON_LM_PATH=None), NO_ENV),
    "python.libaio": ("npu", GONE, WARN, change_packages(deepspeed=None), apply_changes(*(change_answer(q.key, outcome=Outcome.FAILED) for q in LIBAIO))),
}  # fmt: skip
