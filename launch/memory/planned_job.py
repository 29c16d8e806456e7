"""A training job and its layout on the cards, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from envcheck.core.messages import Message
from launch.catalogue.architecture import Model
from launch.catalogue.devices import DeviceModel
from launch.catalogue.frameworks import Framework, Kernels

OF_MACHINE = ("machine", "links", "layout", "card")  # topics of assumptions about what the job runs on


def is_assumption_about(text: str, *topics: str) -> bool:
    """Whether one of `PlannedJob.assumed` is about one of these topics: the word before the colon of its template."""
    template = text.template if isinstance(text, Message) else text
    return template.partition(":")[0] in topics


def adapt_model(model: Model, framework: Framework) -> Model:
    """Return the model as the framework builds it.

    With a head of its own where the framework ties none; without prediction layers where it does not train them
    (transformers leaves their weights out).
    """
    built = replace(model, tied=False) if framework.unties else model
    return built if framework.predicts_ahead else replace(built, mtp_layers=0)


@dataclass(frozen=True)
class ParallelLayout:
    """Degrees of parallelism: tensor, pipeline, virtual pipeline chunks, expert, expert tensor, context.

    `cards` is the total of all nodes; `layer_split`: layers are spread over cards without pipelining (device_map).
    `shard_group`: the ranks that share weights, optimizer states and gradients, the others repeat them (HSDP); 0: all.
    """

    tp: int = 1
    pp: int = 1
    vpp: int = 1
    ep: int = 1
    etp: int | None = None
    cp: int = 1
    cards: int = 1
    layer_split: bool = False
    shard_group: int = 0

    @cached_property
    def expert_tp(self) -> int:
        """Expert tensor degree: tp by default, 1 if there are too few cards for that."""
        if self.etp:
            return self.etp
        return self.tp if self.cards >= self.pp * self.ep * self.tp else 1

    @cached_property
    def replicas(self) -> int:
        """Data-parallel replicas, without context-parallel ranks."""
        return max(1, self.cards // (self.tp * self.pp * self.cp)) if not self.layer_split else 1

    @cached_property
    def dense_shards(self) -> int:
        """Ranks that share dense optimizer states, including context-parallel ranks."""
        ranks = max(1, self.cards // (self.tp * self.pp)) if not self.layer_split else 1
        return min(ranks, self.shard_group or ranks)

    @cached_property
    def expert_shards(self) -> int:
        """Ranks that share the optimizer states of experts."""
        ranks = max(1, self.cards // (self.pp * self.ep * self.expert_tp)) if not self.layer_split else 1
        return min(ranks, self.shard_group or ranks)


@dataclass(frozen=True)
class Precision:
    """Bytes per trained parameter; `master` 0: no fp32 copy; `moments`: all moments together.

    `compute`: bytes of an element of the activations, 2 also where autocast computes with fp32 weights; use that of
    the job, which knows its layout.
    """

    weight: float = 2.0
    gradient: float = 2.0
    master: float = 4.0
    moments: float = 8.0
    compute: float = 2.0


@dataclass(frozen=True)
class Recompute:
    """`kind` is full, none, selective or block; block recomputes the first `layers` of a stage (or chunk).

    `modules` of selective recompute, none: core attention (Megatron-LM, transformer_config.py, recompute_modules).
    """

    kind: str = "none"
    layers: int = 0
    modules: frozenset[str] = frozenset()

    def repeats(self, module: str) -> bool:
        """Whether a module of every layer is run again in the backward pass."""
        return self.kind == "selective" and module in (self.modules or {"core_attn"})


@dataclass(frozen=True)
class Adapter:
    """`targets`: all-linear, qkv, qv, attn or mlp; `saved`: modules trained and saved in full: embed, head."""

    rank: int = 0
    targets: str = "all-linear"
    saved: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedJob:
    """A training job.

    `method`: full or lora.  `stage`: dpo, kto, pt, ...; "" for supervised fine-tuning.  `pairs`, `reference`:
    preference pairs, a frozen second model (DPO, KTO).  `memory_gib`: size of a card.  `varying_lengths`: samples are
    not packed; `length_known` False: `seq_len` is only a maximum.  `offload_share`: of the optimizer; `offload_layers`:
    of each stage, whose activations are moved, 0: all.  `meter`: the reading to predict, allocated, reserved or smi;
    `meter_known` False: it is not said of which the reading is; `last_rank`: of the last stage instead of the fullest
    card; `first_iteration`: of the first step, before moments exist.  `outlier_share`: of the columns of 8-bit
    matrices, which bitsandbytes copies in 16 bit.  `assumed`: notes on values that were not given.
    `open_inputs`: names of inputs that were not given (launch/memory/open_inputs.py).  `framework_known`: it is not
    planned like another one because none, or an unknown one, was named.  `sequence_parallel`: None if the job neither
    asks for it nor excludes it.
    """

    model: Model
    framework: Framework
    device: DeviceModel
    memory_gib: float
    layout: ParallelLayout = ParallelLayout()
    method: str = "full"
    stage: str = ""
    pairs: bool = False
    reference: bool = False
    precision: Precision = Precision()
    sharding: str = "none"
    offload: frozenset[str] = frozenset()
    offload_share: float = 1.0
    offload_layers: int = 0
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
    sequence_parallel: bool | None = None
    dropout: float = 0.0
    compiled: bool = False
    optimizer: str = "adamw"
    expandable: bool = False
    meter: str = "smi"
    meter_known: bool = True
    last_rank: bool = False
    first_iteration: bool = False
    outlier_share: float = 0.0
    assumed: tuple[str, ...] = field(default=())
    open_inputs: frozenset[str] = frozenset()
    framework_known: bool = True

    @property
    def is_complete(self) -> bool:
        """Whether every setting of the training is known; assumptions about the machine and its layout are not such."""
        return self.framework_known and all(is_assumption_about(text, *OF_MACHINE) for text in self.assumed)

    @property
    def splits_sequence(self) -> bool:
        """Whether tensor parallel ranks split the norms by tokens, too: they do unless the job excludes it."""
        return self.layout.tp > 1 and self.sequence_parallel is not False

    @cached_property
    def kernels(self) -> Kernels:
        """The kernels of the framework: its default ones, compiled, or with selective recompute."""
        if self.recompute.kind == "selective":
            return self.framework.selective
        return self.framework.compiled if self.compiled else self.framework.kernels

    @property
    def trains_all(self) -> bool:
        """Whether the full model is trained, without adapters."""
        return self.method == "full"

    @property
    def compute(self) -> float:
        """Bytes of an element of the activations: of a weight where FSDP alone would cast those of a divided model."""
        x, p = self.layout, self.precision
        divided = max(x.tp, x.pp) > 1 and x.cp == 1 and self.sharding == "none"
        return p.weight if divided and self.framework.casts_in_fsdp else p.compute

    @property
    def batches(self) -> int:
        """Micro batches of a step, as given or by default of the framework."""
        return self.grad_accum or self.framework.batches

    @cached_property
    def tokens(self) -> float:
        """Tokens of one micro batch on one card: context parallelism splits the sequence, pairs double the batch."""
        return self.seq_len * self.micro_batch * (2 if self.pairs else 1) / self.layout.cp
