"""Activations that one layer keeps for its backward pass, in bytes per token, module by module.

With 16-bit compute, no dropout, f = 4h, k = a and everything fused this is the published 34 h s b (Korthikanti et al.,
arXiv 2205.05198); other shapes, frozen matrices and eagerly written modules differ, hence the modules one by one.  A
matrix needs its input only for its own gradient: frozen matrices keep none.
"""

from __future__ import annotations

from launch.catalogue.architecture import Moe
from launch.memory.adapted import adapter_cast, attention_adapters, mlp_adapters, quantised_inputs
from launch.memory.job import PlannedJob
from launch.memory.quantised import lifted
from launch.memory.saved import C, Saved


def norm_copy(job: PlannedJob) -> float:
    """Bytes per element of the normalised copy that a trained scale needs."""
    m, k = job.model, job.kernels
    if m.norm == "layernorm":
        return 0.0
    return k.norm_copy_fp32 if m.fp32_scale else k.norm_copy


def keeps(job: PlannedJob) -> bool:
    """Whether products keep their inputs: for a trained operand's gradient; under Paddle for a frozen one's, too."""
    return job.trains_all or job.kernels.frozen_inputs


def norms(job: PlannedJob, count: int, outputs: int = 1) -> Saved:
    """Per norm: input as saved, normalised copy if trained, 4 for its scale; of `outputs` the matrices need the result.

    Backward: residual 2 h and, where it computes in fp32, five fp32 tensors (counted on torch), else two of 2 h; the
    copy and the output are gone by then.
    """
    m, k = job.model, job.kernels
    saved_in = C if m.norm == "layernorm" else k.norm_in
    released = (norm_copy(job) + k.norm_out * outputs / max(1, count)) * keeps(job)
    each = saved_in + released
    chain = 5 * 4.0 if saved_in > C else 2 * C
    return Saved(whole=count * (m.hidden * each + 4.0), gradient=m.hidden * (C + chain - released))


def attention(job: PlannedJob) -> Saved:
    """q and output 2 a d each, keys and values 2 k d each (a where repeated), fp32 row statistics 4 a.

    Backward: residual 2 h and the gradients of all four; of a score matrix `score_gradient`, when the output is gone
    and the values' gradient has taken the values' place.
    """
    m, k = job.model, job.kernels
    if m.mla:
        return _latent(job)
    keys = m.q_size if k.repeat_kv or not job.flash else m.kv_size
    kept = C * (m.q_size + 2 * keys)
    # A kernel keeps its output and row statistics itself; a plain product's output is the next matrix's to keep.
    kept += C * m.q_size + 4.0 * m.heads if job.flash else C * m.q_size * keeps(job)
    if k.shared_qkv and keys == m.kv_size:  # repeated values are a copy, which lets the fused result go
        kept += C * (m.q_size + m.kv_size)
    if m.qk_norm:
        kept += (k.norm_in + norm_copy(job) * keeps(job)) * (m.q_size + m.kv_size) + 4.0 * (m.heads + m.kv_heads)
    kept += k.rotated * (m.q_size + m.kv_size)
    grads = C * (2 * m.q_size + 2 * keys) if job.flash else _plain_gradient(job)
    return Saved(divided=kept, gradient=C * m.hidden + grads, score=score(job))


def _latent(job: PlannedJob) -> Saved:
    """2 a (2 (dn + dr) + 2 dv) + 4 a heads as they enter and leave the kernel; the latents rank q + rank kv, normalised
    as a layer's input is.

    Where the value is a view (`latent_views`) it keeps the whole up-projected 2 a (dn + dv), and the output, which
    comes by head, is put into order for its projection: 2 a dv more where that is trained.
    """
    m, k = job.model, job.kernels
    assert m.mla
    x = m.mla
    heads = C * m.heads * (2 * (x.nope + x.rope) + x.value) + 4.0 * m.heads
    heads += C * m.heads * (x.nope + x.value if k.latent_views and job.flash else x.value)
    heads -= 0.0 if job.flash else C * m.heads * x.value + 4.0 * m.heads
    ordered = C * m.heads * x.value * keeps(job) * (k.latent_views or not job.flash)
    latent = (x.q_rank + x.kv_rank) * (k.norm_in + (k.norm_copy + k.norm_out) * keeps(job))
    grads = heads if job.flash else _plain_gradient(job)
    return Saved(whole=latent, divided=heads + ordered, gradient=C * m.hidden + grads, score=score(job))


def score(job: PlannedJob) -> float:
    """Without a flash kernel a s elements per token: 2 a s kept by a fused softmax, 6 a s where softmax runs in fp32
    and is cast back; dropout adds its mask and output, 3 a s (the 5 a s of arXiv 2205.05198), soft capping what tanh
    returned, 2 a s.  Selective recompute drops it.
    """
    return _matrix(job, job.kernels.score + C * job.model.caps_scores)


def _plain_gradient(job: PlannedJob) -> float:
    """What the softmax's backward pass adds, less the output, kept for its projection's gradient and gone by then."""
    return _matrix(job, job.kernels.score_gradient) - C * job.model.out_size * keeps(job)


def _matrix(job: PlannedJob, each: float) -> float:
    if job.flash or job.recompute.kind == "selective":
        return 0.0
    return (each + 3.0 * (job.dropout > 0)) * job.model.heads * job.seq_len


def _mlp_bytes(job: PlannedJob) -> float:
    """Bytes per element of an MLP's width: gate, activation, up, and the product where the last matrix is trained."""
    k, gated = job.kernels, job.model.gated
    keep, trained = (k.mlp_keep, k.mlp_trained) if gated else (k.plain_keep, k.plain_trained)
    return keep + trained * keeps(job)


def _mlp_gradient(job: PlannedJob) -> float:
    """Bytes per element of an MLP's width at its backward peak: gradients of product, activation and up (of activation
    and input without a gate), less the product, which is gone by then."""
    k, gated = job.kernels, job.model.gated
    return (3 if gated else 2) * C - (k.mlp_trained if gated else k.plain_trained) * keeps(job)


def dense_mlp(job: PlannedJob) -> Saved:
    m = job.model
    return Saved(divided=_mlp_bytes(job) * m.ffn, gradient=C * m.hidden + _mlp_gradient(job) * m.ffn)


def mixture(job: PlannedJob, moe: Moe) -> Saved:
    """k (MLP bytes x fe + copies of h) + shared + 4 nE for the router's fp32 probabilities + `choice` k for the
    indices and weights of choosing, sorting and undoing that.

    `expert_copies` counts the bytes per element of h that dispatch and combination keep of each of a token's k copies,
    `expert_trained` what experts keep of their input for their own gradient.  A gate on the shared expert keeps its
    output, 2 h.
    With Te = 1 < T every rank dispatches its own slice of the sequence, else each sees all tokens and a slice of fe.
    A router that balances is assumed; drop-less dispatch has no bound.
    """
    m, per = job.model, _mlp_bytes(job)
    inner = moe.active * per * moe.ffn
    copies = moe.active * (job.kernels.expert_copies + job.kernels.expert_trained * keeps(job)) * m.hidden
    sliced = job.layout.expert_tp < job.layout.tp
    within = _mlp_gradient(job) * moe.ffn
    around = job.kernels.expert_gradient * m.hidden
    again = job.recompute.kind in ("full", "block")
    if moe.fp32_weights:  # and, where experts are frozen, the 16-bit copy that goes on; a recomputed result is let go
        around = 2 * around + (C * m.hidden if around and not (again or job.trains_all) else 0.0)
    gradient = C * m.hidden + moe.active * max(within, around)
    # A shared expert with a gate runs before the others, one without after them, its backward pass before theirs.
    later = 0.0 if moe.shared_gate else per * moe.shared_ffn
    gradient += C * m.hidden * moe.shared_gate - later
    if again and around and not job.trains_all:
        # At the end of a recomputed layer: results' gradient, dispatched input, weighed results; residual, norm's
        # output and incoming gradient.
        gradient = max(gradient, 3 * C * (moe.active + 1) * m.hidden - later)
    return Saved(
        whole=4.0 * moe.experts
        + job.kernels.choice * moe.active
        + C * m.hidden * moe.shared_gate
        + _router_input(job, moe),
        divided=inner + per * moe.shared_ffn + (copies if sliced else 0.0),
        fixed=0.0 if sliced else copies,
        gradient=gradient,
    )


def _router_input(job: PlannedJob, moe: Moe) -> float:
    """Routers with a correction bias cast their input to fp32 (DeepSeek-V3, GLM-4.5, ERNIE 4.5), which autocast brings
    back: a copy of 2 h for their own gradient.  gpt-oss's bias is a plain one, its router has no copy."""
    return C * job.model.hidden * (moe.router_bias and not moe.expert_bias and keeps(job))


def layer(job: PlannedJob, moe_layer: bool) -> Saved:
    """One layer's set; of four norms (Gemma 2, GLM-4) the last stands behind the MLP, where a recomputed layer's
    backward pass begins while all of its set is there."""
    m = job.model
    inner = mixture(job, m.moe) if moe_layer and m.moe else dense_mlp(job)
    masks = Saved(whole=2.0 * m.hidden * (job.dropout > 0))
    behind = int(m.norms > 3)
    between = norms(job, m.norms - 1 - behind) if m.norms > 1 else Saved()
    before = norms(job, 1) + attention_adapters(job) + quantised_inputs(job) + masks
    whole = before + attention(job) + between + inner + mlp_adapters(job, moe_layer) + adapter_cast(job, moe_layer)
    return whole + norms(job, 1, outputs=0) if behind else whole


def positions(job: PlannedJob) -> float:
    """Bytes of cosines and sines, one table for the batch and all layers: 2 x 2 d s (transformers' RotaryEmbedding;
    d of latent attention is its rotated part).  The rotation's backward pass needs them."""
    m = job.model
    turned = m.mla.rope if m.mla else m.head_dim
    return 0.0 if m.learned_positions else 2 * C * turned * job.seq_len / job.layout.cp


def masks(job: PlannedJob) -> float:
    """Bytes of the causal mask of a micro batch: recomputed layers are called with it again, so that it stays; `mask`
    b s^2 where attention is a plain product, two where only some layers have a window (transformers' masking_utils,
    counted on torch)."""
    again = job.recompute.kind in ("full", "block") and not job.flash
    return (1 + job.model.some_windows) * job.kernels.mask * job.seq_len * job.tokens * again


def edges(job: PlannedJob, first: bool, last: bool) -> float:
    """Per token what the ends of the model add: the normalisation in front of the head; less the very first one under
    adapters, since a frozen embedding's output needs no gradient and nothing is kept for it."""
    m, k = job.model, job.kernels
    saved_in = C if m.norm == "layernorm" else k.norm_in
    spared = 0.0
    if first and not job.trains_all and "embed" not in job.adapter.saved and job.recompute.kind == "none":
        spared = m.hidden * (saved_in + norm_copy(job) * k.frozen_inputs)
        if m.qk_norm and job.adapter.targets == "qv":  # nor do the first keys
            spared += k.norm_in * m.kv_size + 4.0 * m.kv_heads
    return (norms(job, 1).kept if last else 0.0) - spared


def backward(job: PlannedJob, layer_gradient: float, working: float, last: bool) -> float:
    """Per token the most that the backward pass holds over all that is kept and the layer being recomputed: at the
    last normalisation, which has no residual, or in a layer, when that normalisation's tensors are gone."""
    final = norms(job, 1)
    if not last:
        return layer_gradient
    return max(0.0, final.gradient - C * job.model.hidden - working, layer_gradient - final.kept)


def checkpoint(job: PlannedJob) -> float:
    """Full recompute keeps a layer's input alone: 2 h per token (4 h where the residual stream is fp32), divided by T
    with sequence parallelism."""
    stream = 2 * C if lifted(job) else C
    return stream * job.model.hidden / (job.layout.tp if job.sequence_parallel else 1)
