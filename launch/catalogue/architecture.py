"""The dimensions of a model as frozen data, and parameter counts from them.  Counts are parameters, sizes elements.

Parameters are in three groups, because parallelism divides them differently: `divided` by tensor parallelism
(attention, dense and shared MLP), `replicated` on every tensor-parallel rank (norms, router, latent down-projections),
and `experts`, divided by expert parallelism.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from envcheck.core.toml_file import FileKey, Given


@dataclass(frozen=True)
class Moe:
    """Mixture of experts: `active` experts of width `ffn` per token; `shared_ffn` is the total width of shared ones.

    `first_dense`: number of dense layers at the start.  `fp32_weights`: routing weights stay in fp32, so the results of
    experts are weighted and summed in fp32.
    """

    experts: int
    active: int
    ffn: int
    shared_ffn: int = 0
    first_dense: int = 0
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    fp32_weights: bool = False
    vision_experts: int = 0
    vision_ffn: int = 0
    fused_tensors: bool = False


@dataclass(frozen=True)
class Mla:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434); q_rank 0: queries are not compressed.

    `index_heads`, `index_dim`: heads and head size of the indexer that selects keys (DeepSeek-V3.2); 0 without one.
    """

    q_rank: int
    kv_rank: int
    nope: int
    rope: int
    value: int
    index_heads: int = 0
    index_dim: int = 0


@dataclass(frozen=True)
class ParameterCounts:
    """Parameters of a part of the model, by how parallelism divides them."""

    divided: int = 0
    replicated: int = 0
    experts: int = 0

    def __add__(self, other: ParameterCounts) -> ParameterCounts:
        return ParameterCounts(
            self.divided + other.divided, self.replicated + other.replicated, self.experts + other.experts
        )

    def multiplied_by(self, n: int) -> ParameterCounts:
        """Return the counts of `n` such parts."""
        return ParameterCounts(self.divided * n, self.replicated * n, self.experts * n)

    @property
    def total(self) -> int:
        """All parameters of the part."""
        return self.divided + self.replicated + self.experts


@dataclass(frozen=True)
class Model:
    """The dimensions of a decoder.

    `norm`: rmsnorm, layernorm or none (without parameters); `norms`: how many per layer (1: parallel block).
    `qk_norm_whole`: over all heads together, not per head.  `caps_logits`, `caps_scores`: soft capping,
    cap x tanh(x / cap).  `fp32_scale`: norms multiply by their scale in fp32 (Gemma).  `some_windows`: only some layers
    have a sliding window.  `foreign`: the kind of layers that is not modelled, "" if all are.
    `parallel`: attention and MLP read the same residual (GPT-NeoX), so two norms share their input.  `fused_qkv`: one
    matrix makes queries, keys and values.  `partly_rotated`: the rotary embedding turns a part of each head, which is
    then joined with the rest, so that queries are laid out by head.  `chained_gelu`: its code computes GELU in single
    operations, each of which keeps its operands (transformers' NewGELUActivation).
    `half_logits`: its code computes the loss from the 16-bit logits, without a copy in fp32.
    """

    name: Given[str]
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool = False
    gated: bool = True
    norm: str = "rmsnorm"
    norms: int = 2
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    qk_norm: bool = False
    qk_norm_whole: bool = False
    sinks: bool = False
    learned_positions: int = 0
    max_positions: int = 0
    sliding_window: int = 0
    some_windows: bool = False
    caps_logits: bool = False
    caps_scores: bool = False
    fp32_scale: bool = False
    mtp_layers: int = 0
    moe: Moe | None = None
    mla: Mla | None = None
    vision_params: int = 0
    foreign: str = ""
    half_logits: bool = False
    parallel: bool = False
    fused_qkv: bool = False
    partly_rotated: bool = False
    chained_gelu: bool = False
    published_params: Annotated[int | None, FileKey("params")] = None
    hub_id: str = ""
    source: str = ""

    @cached_property
    def q_size(self) -> int:
        """Elements of the queries per token."""
        return self.heads * self.head_dim

    @cached_property
    def kv_size(self) -> int:
        """Elements of the keys (or of the values) per token."""
        return self.kv_heads * self.head_dim

    @cached_property
    def out_size(self) -> int:
        """Elements of the input of the attention's output projection, per token."""
        return self.heads * (self.mla.value if self.mla else self.head_dim)

    @cached_property
    def norm_params(self) -> int:
        """Parameters of one norm: a weight per element, and a bias in a layer norm."""
        return self.hidden * {"layernorm": 2, "none": 0}.get(self.norm, 1)

    @cached_property
    def qk_norm_params(self) -> int:
        """Parameters of the norms of queries and keys: per head, or over all heads together (OLMo 2)."""
        return (self.q_size + self.kv_size if self.qk_norm_whole else 2 * self.head_dim) * self.qk_norm

    @cached_property
    def attention(self) -> ParameterCounts:
        """Projections and biases of one layer; the latent down-projections of MLA are on every rank."""
        if self.mla:
            return self._latent_attention()
        weights = self.hidden * (self.q_size + 2 * self.kv_size) + self.q_size * self.hidden
        bias = (self.q_size + 2 * self.kv_size) * self.qkv_bias
        sinks = self.heads * self.sinks
        return ParameterCounts(weights + bias + sinks, self.hidden * self.out_bias + self.qk_norm_params)

    def _latent_attention(self) -> ParameterCounts:
        assert self.mla
        m, a = self.mla, self.heads
        query = a * (m.nope + m.rope)
        up = m.kv_rank * a * (m.nope + m.value) + a * m.value * self.hidden
        up += (m.q_rank or self.hidden) * query
        down = self.hidden * (m.kv_rank + m.rope) + m.kv_rank + (self.hidden * m.q_rank + m.q_rank)
        return ParameterCounts(up, down + self._count_indexer())

    def _count_indexer(self) -> int:
        """Parameters of the indexer, on every rank: queries, key with its layer norm, weights of the heads."""
        assert self.mla
        m = self.mla
        whole = (m.q_rank or self.hidden) * m.index_heads * m.index_dim
        return whole + (self.hidden + 2) * m.index_dim + self.hidden * m.index_heads

    @cached_property
    def dense_mlp(self) -> ParameterCounts:
        """The MLP of a layer without experts."""
        matrices = 3 if self.gated else 2
        bias = self.ffn * (matrices - 1) * self.mlp_bias
        return ParameterCounts(matrices * self.hidden * self.ffn + bias, self.hidden * self.mlp_bias)

    @cached_property
    def expert_mlp(self) -> ParameterCounts:
        """Experts, shared experts and router of one mixture layer."""
        if not self.moe:
            return ParameterCounts()
        m, matrices = self.moe, 3 if self.gated else 2
        one = matrices * self.hidden * m.ffn + ((matrices - 1) * m.ffn + self.hidden) * m.expert_bias
        vision = m.vision_experts * matrices * self.hidden * m.vision_ffn
        routed = m.experts + m.vision_experts  # each set of experts has a router of its own (ERNIE-4.5-VL)
        router = routed * (self.hidden + m.router_bias) + self.hidden * m.shared_gate
        return ParameterCounts(matrices * self.hidden * m.shared_ffn, router, m.experts * one + vision)

    def is_moe_layer(self, layer: int) -> bool:
        """Whether layer `layer`, counted from 0, has experts."""
        return self.moe is not None and layer >= self.moe.first_dense

    def layer_params(self, index: int) -> ParameterCounts:
        """Return the parameters of layer `index`, counted from 0."""
        mlp = self.expert_mlp if self.is_moe_layer(index) else self.dense_mlp
        return self.attention + mlp + ParameterCounts(replicated=self.norms * self.norm_params)

    @cached_property
    def embedding(self) -> ParameterCounts:
        """Token and learned position embeddings."""
        return ParameterCounts(self.vocab * self.hidden, self.learned_positions * self.hidden)

    @cached_property
    def head(self) -> ParameterCounts:
        """The output matrix, whether or not it shares the embedding's storage."""
        return ParameterCounts(self.vocab * (self.hidden + self.head_bias))

    @cached_property
    def largest_tensor(self) -> int:
        """Parameters of the largest tensor: embedding, MLP matrix, or the experts of a layer in one."""
        experts = self.moe.experts * 2 * self.hidden * self.moe.ffn if self.moe and self.moe.fused_tensors else 0
        return max(self.vocab * self.hidden, self.ffn * self.hidden, experts)

    @cached_property
    def final_norm(self) -> ParameterCounts:
        """The norm before the output matrix."""
        return ParameterCounts(replicated=self.norm_params)

    @cached_property
    def mtp(self) -> ParameterCounts:
        """One multi-token-prediction layer: a last layer, a 2h to h projection, three norms (DeepSeek-V3 report)."""
        project = ParameterCounts(2 * self.hidden * self.hidden, 3 * self.norm_params)
        return self.layer_params(self.layers - 1) + project

    @cached_property
    def trunk(self) -> ParameterCounts:
        """All layers."""
        dense = self.moe.first_dense if self.moe else self.layers
        dense = min(dense, self.layers)
        return self.layer_params(0).multiplied_by(dense) + (
            self.layer_params(self.layers - 1).multiplied_by(self.layers - dense)
            if self.layers > dense
            else ParameterCounts()
        )

    @cached_property
    def params(self) -> int:
        """All parameters of the published checkpoint, without multi-token-prediction layers, as publishers count."""
        parts = self.embedding + self.trunk + self.final_norm
        return parts.total + (0 if self.tied else self.head.total) + self.vision_params

    @cached_property
    def active_params(self) -> int:
        """As `params`, with only the experts that are active for a token."""
        if not self.moe:
            return self.params
        m, matrices = self.moe, 3 if self.gated else 2
        one = matrices * self.hidden * m.ffn + ((matrices - 1) * m.ffn + self.hidden) * m.expert_bias
        mixture = self.layers - m.first_dense
        idle = self.expert_mlp.experts - m.active * one + m.vision_experts * (self.hidden + m.router_bias)
        return self.params - mixture * idle - self.vision_params
