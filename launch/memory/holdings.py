"""Who holds what: the parameters of one card on one pipeline stage.

Tensor parallel divides attention, MLP, embedding and head by T; norms and router stand on every rank.  Experts divide
by E x Te.  The first stage holds the embedding (and vision tower), the last the head: a second copy where tied.
"""

from __future__ import annotations

from dataclasses import dataclass

from launch.catalogue.architecture import Group, Model
from launch.memory.job import Layout


@dataclass(frozen=True)
class Holding:
    """Parameters of one card: `dense` and `experts` of its layers, `embedding` and `head`; `norms` belong to dense."""

    dense: float
    experts: float
    embedding: float
    head: float
    norms: float
    vision: float

    @property
    def total(self) -> float:
        return self.dense + self.experts + self.embedding + self.head + self.vision


def stage_layers(layers: int, stages: int, chunks: int = 1) -> tuple[int, ...]:
    """Layers of each stage: L/P, the remainder to the first stages; L/(P v) whole chunks where v divides.

    Paddle's `uniform` split and MindSpeed's list both put the extra layers in front; 54 on 16 gives 4 at most.
    """
    low, extra = divmod(layers, stages)
    return tuple(low + (1 if stage < extra else 0) for stage in range(stages))


def first_layer(layers: int, stages: int, stage: int) -> int:
    low, extra = divmod(layers, stages)
    return stage * low + min(stage, extra)


def held(group: Group, layout: Layout) -> tuple[float, float]:
    """(dense, experts) parameters of one card: divided/T + replicated, experts/(E Te)."""
    return group.divided / layout.tp + group.replicated, group.experts / (layout.ep * layout.expert_tp)


def holding(model: Model, layout: Layout, stage: int) -> Holding:
    """What a card of pipeline stage `stage` holds of `model`."""
    start = first_layer(model.layers, layout.pp, stage)
    mine = range(start, start + stage_layers(model.layers, layout.pp)[stage])
    mixture = sum(model.is_moe(i) for i in mine)
    plain = len(mine) - mixture
    group = Group()
    if plain:
        group += model.layer(0).times(plain)
    if mixture:
        group += model.layer(model.layers - 1).times(mixture)
    first, last = stage == 0, stage == layout.pp - 1
    if last:
        group += model.final_norm + model.mtp.times(model.mtp_layers)
    dense, experts = held(group, layout)
    positions = model.embedding.replicated
    head_here = last and not (model.tied and first)
    return Holding(
        dense=dense,
        experts=experts,
        embedding=(model.embedding.divided / layout.tp + positions) if first else 0.0,
        head=model.head.divided / layout.tp if head_here else 0.0,
        norms=float(model.norms * model.norm_params * len(mine)),
        vision=float(model.vision_params) if first else 0.0,
    )
