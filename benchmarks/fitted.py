"""Numbers of the planner that were fitted, and mechanisms that were found because of a source: what each is without it.

Everything else follows from counts, papers, code or a framework's defaults.  Names are OWNER.FIELD: a framework, or *
for all; `kernels.FIELD` of its modules; `table_rows`, `quantised` for constants of those modules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from launch.catalogue import frameworks
from launch.planner import table_rows

SWITCHED = {
    "torchtitan.selective": "generic",
    "torchtitan-2024.selective": "generic",
    "automodel.kernels": "generic",
}  # the value is that framework's own


@dataclass(frozen=True)
class Fitted:
    """`without` is what theory or a neighbour gives.

    Where readings of other sources fix the number as well, it is fitted to them, by `refit`: the values that
    `python -m benchmarks.memory_accuracy --refit` prints.
    """

    name: str
    without: Any
    sources: tuple[str, ...]
    refit: Mapping[str, Any] = field(default_factory=dict)

    def value_without(self, source: str) -> Any:
        """Return the value with that source left out."""
        return self.refit.get(source, self.without)


NUMBERS = (
    Fitted("swift1.growth_varying", 1.5, ("swift-bench",)),
    Fitted("rows.FILL_POWER", 1.0, ("swift-bench",)),
    Fitted("megatron-swift.buffer_gib", 0.0, ("swift-examples",)),
    Fitted("megatron-swift.expert_buffer_gib", 0.0, ("swift-examples",)),
    Fitted("paddle.buffer_gib", 0.0, ("flagperf-paddle",)),
    Fitted("paddle.fused", 10.0, ("ernie",)),
    Fitted("*.gather_growth", 1.08, ("flagperf-ds",), {"flagperf-ds": 1.4}),
    Fitted(
        "*.growth",
        1.0,
        ("qwen-readme", "swift-examples", "flagperf-ds"),
        {"qwen-readme": 1.16, "swift-examples": 1.16, "flagperf-ds": 1.16},
    ),
    *(
        Fitted(f"{name}.workspace_gib", 0.016, ("megatron-golden",))
        for name in ("megatron", "megatron-2024", "megatron-swift", "neox")
    ),
    Fitted("mindspeed.pair_loss", 1.0, ("mindspeed-st",)),
    Fitted("rows.ASSUMED_CARDS", 8, ("megatron-golden",)),
)
# Each has its derivation in the sources' code, and would not have been looked for without their readings.
MECHANISMS = (
    Fitted("litgpt-2023.adapter_units", True, ("litgpt-tables",)),
    Fitted("*.quantised_inputs", False, ("litgpt-tables",)),
    Fitted("*.quantised_head", False, ("litgpt-hub",)),
    Fitted("*.keeps_graph", False, ("litgpt-hub",)),
    Fitted("*.unties", False, ("litgpt-hub",)),
    Fitted("torchtune.fused_step", (), ("torchtune",)),
    Fitted("torchtune.compiled_fused", 7.0, ("torchtune",)),
    Fitted("torchtune-2024.loss", 12.0, ("torchtune-prs",)),
    *(Fitted(f"{name}.fused", 10.0, ("torchtitan-pr",)) for name in ("torchtitan", "torchtitan-2024")),
    Fitted("*.loss_half", 12.0, ("qwen-readme",)),
    Fitted("swift1.loss", 12.0, ("swift-bench",)),
    Fitted("*.watches_inputs", False, ("fms-acceleration", "fsdp-qlora")),
    Fitted("*.lift", 2.0, ("fms-acceleration", "unsloth-context", "universal-trainer")),
    Fitted("fused-ops.loss", 12.0, ("fms-acceleration",)),
    Fitted("*.accumulates_whole", False, ("litgpt-hub",)),
    *(
        Fitted(f"{name}.{field}", without, ("torchtitan",))
        for name in ("torchtitan", "torchtitan-2024")
        for field, without in (("pipelined_shards", False), ("selective", "generic"), ("parallel_loss", 0.0))
    ),
    Fitted("unsloth.in_place", False, ("unsloth-context",)),
    Fitted("unsloth.quantised_inputs", True, ("unsloth-context",)),
    Fitted("axolotl.lift", 4.0, ("axolotl-examples",)),
    Fitted("automodel.kept_logits", 0.0, ("nemo-automodel",)),
    Fitted("automodel.kernels", "generic", ("nemo-automodel",)),
    Fitted("*.kept_logits", 0.0, ("universal-trainer", "fitcheck")),
    Fitted("loop.autocast", True, ("universal-trainer",)),
    Fitted("labels-loop.computes_loss", False, ("fitcheck",)),
    Fitted("*.kernels.score_product", 0.0, ("fitcheck",)),
    Fitted("*.edge_units", (), ("torchtune",)),
    Fitted("megatron-2024.loss", 6.0, ("flagperf-megatron",)),
    Fitted("xtuner.fused", 10.0, ("xtuner",)),
    Fitted("xtuner.fused_head", 1.0, ("xtuner",)),
    *(Fitted(f"atorch.{name}", False, ("atorch",)) for name in ("casts_shards", "caches_keys")),
    *(Fitted(f"megatron.{name}.expert_copies", 8.0, ("bridge-cards",)) for name in ("kernels", "selective")),
    Fitted("torchtitan.selective.experts_again", False, ("titan-moe-issue",)),
    *(Fitted(f"{name}.casts_in_fsdp", False, ("poc-h200",)) for name in ("torchtitan", "torchtitan-2024")),
)


@contextmanager
def without(source: str, table: tuple[Fitted, ...]) -> Iterator[None]:
    """The planner with the entries of `table` that rest on `source` put back."""
    undo = [put(one.name, one.value_without(source)) for one in table if source in one.sources]
    try:
        yield
    finally:
        for back in reversed(undo):
            back()


def put(name: str, value: Any) -> Callable[[], None]:
    """Set the number; the answer undoes it."""
    owner, field = name.split(".", 1)
    if owner == "rows":
        old = getattr(table_rows, field)
        setattr(table_rows, field, value)
        return lambda: setattr(table_rows, field, old)
    known: dict[str, frameworks.Framework] = frameworks.load_frameworks()  # type: ignore[assignment]
    before = dict(known)
    if name in SWITCHED:
        value = getattr(known[value], field)
    for key, framework in before.items():
        if owner in ("*", key):
            known[key] = changed(framework, field, value)
    return lambda: known.update(before)


def changed(framework: frameworks.Framework, field: str, value: Any) -> frameworks.Framework:
    group, _, inner = field.partition(".")
    if inner:
        value = dataclasses.replace(getattr(framework, group), **{inner: value})
    return dataclasses.replace(framework, **{group: value})
