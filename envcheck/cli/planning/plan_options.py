"""The options of `envcheck plan`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click

from envcheck.cli import options
from envcheck.cli.job_argument import job_argument
from envcheck.cli.number_types import Gib, WholeNumber
from envcheck.cli.option_groups import OptionGroup
from envcheck.cli.requests import Request, flag, option
from envcheck.core.errors import UsageError
from envcheck.core.lint.own_job import OwnJob
from envcheck.vendors.names import device_names, resolve_device

NUMBER = WholeNumber(1, 1_000_000)
TOKENS, BATCH = WholeNumber(1, 100_000_000), WholeNumber(1, 65_536)  # the methods in launch.planner.layout_rules
A_FILE = click.Path(path_type=Path)


def read_hardware(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Return the vendor, or the name of a card in the device table (a click callback)."""
    from launch.catalogue import devices

    try:
        return resolve_device(value)
    except UsageError:
        return devices.find_named_device(value).name


def list_hardware() -> Iterable[str]:
    from launch.catalogue import devices

    return (*device_names(), *devices.list_device_words())


def layout_option(*words: str, **more: Any) -> Any:
    return option(*words, group=OptionGroup.LAYOUT, **more)


def degree_option(word: str, **more: Any) -> Any:
    return layout_option(word, type=NUMBER, metavar="COUNT", **more)


@dataclass(frozen=True, kw_only=True)
class ModelsOptions(options.JsonOption):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("list_models",)

    list_models: bool = flag(
        "--list-models", group=OptionGroup.OUTPUT, is_common=True, help="List all known models and exit."
    )


@dataclass(frozen=True, kw_only=True)
class OutputOption(Request):
    output: Path | None = options.output_option()


@dataclass(frozen=True, kw_only=True)
class RowsOptions(OutputOption):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("rows",)

    rows: Path = option(
        "--rows", group=OptionGroup.JOB, type=A_FILE, metavar="FILE",
        help="CSV file with one job per row.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LayoutOptions(
    options.FleetOptions,
    options.JsonOption,
    OutputOption,
    options.VariantOptions,
    options.RecipeOption,
    options.JobOptions,
):
    """A job on described devices."""

    words: tuple[str, ...] = job_argument()
    own_job: OwnJob | None = None
    precision: str | None = None  # of the own job
    hardware: str = ""  # the card that --device names; `device` is then its vendor

    device: str = options.device_option(read_hardware, list_hardware)
    cards: int | None = option(
        "--cards", group=OptionGroup.MACHINE, is_common=True, type=NUMBER, metavar="COUNT",
        help="Total number of devices (Iluvatar: dies).", excludes=options.OVER_SSH,
    )  # fmt: skip
    nodes: int | None = option(
        "--nodes", group=OptionGroup.MACHINE, is_common=True, type=NUMBER, metavar="COUNT",
        help="Number of nodes with these devices.", excludes=options.OVER_SSH,
    )  # fmt: skip
    cards_per_node: int | None = option(
        "--cards-per-node", group=OptionGroup.MACHINE, type=WholeNumber(1, 1024), metavar="COUNT",
        help="Number of devices per node.", excludes=options.OVER_SSH,
    )  # fmt: skip
    memory_gib: float | None = option(
        "--memory-gib", group=OptionGroup.MACHINE, is_common=True, type=Gib(0.5, 4096), metavar="GIB",
        help="Memory of one device (default: this machine's).", excludes=options.OVER_SSH,
    )  # fmt: skip
    used_gib: float | None = option(
        "--used-gib", group=OptionGroup.MACHINE, type=Gib(0, 4096), metavar="GIB",
        help="Device memory in use before the job starts.", excludes=options.OVER_SSH,
    )  # fmt: skip
    tp: int | None = degree_option("--tp", is_common=True, help="Tensor parallel degree.")
    pp: int | None = degree_option("--pp", is_common=True, help="Pipeline parallel degree.")
    vpp: int | None = degree_option("--vpp", help="Number of virtual pipeline stages per device.")
    ep: int | None = degree_option("--ep", is_common=True, help="Expert parallel degree.")
    etp: int | None = degree_option("--etp", help="Expert tensor parallel degree (default: --tp).")
    cp: int | None = degree_option("--cp", help="Context parallel degree.")
    sharding: str | None = layout_option(
        "--sharding", "--zero", is_common=True, metavar="STAGE", help="ZeRO stage: none, stage1, stage2, stage3, fsdp."
    )
    offload: str | None = layout_option(
        "--offload", is_common=True, metavar="PARTS",
        help="Offload: optimizer, tensorwise, params, activations (join with +).",
    )  # fmt: skip
    recompute: str | None = layout_option(
        "--recompute", is_common=True, metavar="MODE", help="Activation recomputation: full, selective, none."
    )
    seq_len: int | None = layout_option(
        "--seq-len", is_common=True, type=TOKENS, metavar="TOKENS", help="Length of the longest sample."
    )
    micro_batch: int | None = layout_option(
        "--micro-batch", is_common=True, type=BATCH, metavar="COUNT", help="Samples per device and forward pass."
    )
    grad_accum: int | None = layout_option(
        "--grad-accum", type=BATCH, metavar="COUNT", help="Micro-batches per optimizer step."
    )
    lora_rank: int | None = layout_option(
        "--lora-rank", type=NUMBER, metavar="COUNT", help="Rank of the LoRA adapters."
    )
    lora_targets: str | None = layout_option(
        "--lora-targets", metavar="NAMES", help="LoRA targets: all-linear, qkv, attn, mlp, ..."
    )
    quant: str | None = layout_option("--quant", metavar="NAME", help="Base model quantization: nf4, int4, int8, ...")
    optimizer: str | None = layout_option(
        "--optimizer", metavar="NAME", help="Optimizer: adamw, adamw8bit, muon, adafactor, ..."
    )
    flash: bool = layout_option("--flash/--no-flash", default=True, help="Use a flash attention kernel.")
    fused_loss: bool | None = layout_option(
        "--fused-loss/--no-fused-loss", default=None, help="Compute the loss in chunks (as Liger does)."
    )
    sequence_parallel: bool | None = layout_option(
        "--sequence-parallel/--no-sequence-parallel",
        default=None,
        help="Split norms by tokens too (default: with --tp).",
    )

    @property
    def option_values(self) -> Mapping[str, Any]:
        """Return the values of all options under the planner's names."""
        return vars(self)

    @property
    def is_described(self) -> bool:
        return bool(self.hardware) or (
            self.device != "auto" and bool(self.cards or self.cards_per_node or self.memory_gib)
        )


@dataclass(frozen=True, kw_only=True)
class SearchOptions(LayoutOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("search",)

    search: bool = flag(
        "--search", group=OptionGroup.OUTPUT, is_common=True, help="Rank all layouts that the framework accepts."
    )


@dataclass(frozen=True, kw_only=True)
class SweepOptions(LayoutOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("sweep",)

    sweep: str = option(
        "--sweep", group=OptionGroup.OUTPUT, is_common=True, metavar="NAME=RANGE",
        help="Vary an option: seq-len=512..8192, tp=1,2,4.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PlanOptions(LayoutOptions):
    explain: bool = flag(
        "--explain", group=OptionGroup.OUTPUT, is_common=True, help="Show the formula and source of each term."
    )
    calibrate: Path | None = option(
        "--calibrate",
        group=OptionGroup.MACHINE,
        type=click.Path(exists=True, path_type=Path),
        metavar="PATH",
        help="Correct the estimate with measured runs.",
    )
