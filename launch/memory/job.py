"""What is to be trained, and how it is laid over the cards: the planner's question as frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from launch.catalogue.architecture import Model
from launch.catalogue.devices import Device
from launch.catalogue.frameworks import Framework, Kernels


@dataclass(frozen=True)
class Layout:
    """Degrees of parallelism: tensor, pipeline, virtual pipeline chunks, expert, expert tensor, context."""

    tp: int = 1
    pp: int = 1
    vpp: int = 1
    ep: int = 1
    etp: int | None = None
    cp: int = 1
    cards: int = 1
    layer_split: bool = False

    @cached_property
    def expert_tp(self) -> int:
        """Expert tensor degree: equal to tp unless said, 1 where the cards do not suffice (memory.md, section 4)."""
        if self.etp:
            return self.etp
        return self.tp if self.cards >= self.pp * self.ep * self.tp else 1

    @cached_property
    def replicas(self) -> int:
        """Data-parallel copies; context-parallel ranks are not counted."""
        return max(1, self.cards // (self.tp * self.pp * self.cp)) if not self.layer_split else 1

    @cached_property
    def dense_shards(self) -> int:
        """Ranks over which dense optimizer states spread: context-parallel ranks belong to the group."""
        return max(1, self.cards // (self.tp * self.pp)) if not self.layer_split else 1

    @cached_property
    def expert_shards(self) -> int:
        return max(1, self.cards // (self.pp * self.ep * self.expert_tp)) if not self.layer_split else 1


@dataclass(frozen=True)
class Precision:
    """Bytes per parameter of what training keeps; `master` 0: no fp32 copy; `moments`: all of them together."""

    weight: float = 2.0
    gradient: float = 2.0
    master: float = 4.0
    moments: float = 8.0


@dataclass(frozen=True)
class Recompute:
    """`kind` is full, none, selective or block; of a block the first `layers` of a stage (or chunk) are recomputed."""

    kind: str = "none"
    layers: int = 0


@dataclass(frozen=True)
class Adapter:
    """`targets` are all-linear, qkv, qv, attn, mlp; `saved` are modules trained and saved in full: embed, head."""

    rank: int = 0
    targets: str = "all-linear"
    saved: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedJob:
    """A training job.  `method` is the base (full, lora); `reference` a frozen second model is held (DPO, KTO).

    `meter` and `rank` say which reading is wanted: allocated, reserved, smi; of the worst card or of the last stage.
    `moments_exist`: whether the peak is that of a later step (Adam's moments are there) or of the first.
    """

    model: Model
    framework: Framework
    device: Device
    memory_gib: float
    layout: Layout = Layout()
    method: str = "full"
    pairs: bool = False
    reference: bool = False
    precision: Precision = Precision()
    sharding: str = "none"
    offload: frozenset[str] = frozenset()
    offload_share: float = 1.0
    recompute: Recompute = Recompute()
    seq_len: int = 2048
    varying_lengths: bool = False
    length_known: bool = True
    micro_batch: int = 1
    grad_accum: int | None = None
    adapter: Adapter = Adapter()
    quant: str = ""
    flash: bool = True
    half: bool = False
    fused_loss: bool = False
    sequence_parallel: bool = False
    dropout: float = 0.0
    compiled: bool = False
    optimizer: str = "adamw"
    expandable: bool = False
    meter: str = "smi"
    last_rank: bool = False
    first_iteration: bool = False
    assumed: tuple[str, ...] = field(default=())

    @cached_property
    def kernels(self) -> Kernels:
        """How modules are written here: as the framework has them, compiled, or recomputed by operator."""
        if self.recompute.kind == "selective":
            return self.framework.selective
        return self.framework.compiled if self.compiled else self.framework.kernels

    @property
    def trains_all(self) -> bool:
        return self.method == "full"

    @cached_property
    def tokens(self) -> float:
        """Tokens of one micro batch on one card: context parallel splits the sequence, pairs double the batch."""
        return self.seq_len * self.micro_batch * (2 if self.pairs else 1) / self.layout.cp
