"""Activations that one layer keeps for its backward pass, in bytes per token, module by module.

With 16-bit compute, no dropout, f = 4h, k = a and fused kernels the sum is the published 34 h s b (Korthikanti et al.,
arXiv 2205.05198).  Other shapes, frozen matrices and unfused modules differ, so each module is computed separately.  A
matrix keeps its input only for its own gradient: frozen matrices keep none.
"""

from __future__ import annotations

from launch.catalogue.architecture import Moe
from launch.memory.adapter_activations import adapter_cast, attention_adapters, mlp_adapters, quantised_inputs
from launch.memory.autocast import casts_weights
from launch.memory.planned_job import PlannedJob
from launch.memory.quantised import is_lifted
from launch.memory.saved_activations import C, SavedActivations
from launch.memory.sharding_buffers import mixes_units


def norm_copy_bytes(job: PlannedJob) -> float:
    """Return the bytes per element of the normalised copy that a trained scale needs."""
    m, k = job.model, job.kernels
    if m.norm == "layernorm":
        return 0.0
    return max(k.norm_copy_fp32, k.norm_copy) if m.fp32_scale or casts_weights(job) else k.norm_copy


def keeps_inputs(job: PlannedJob) -> bool:
    """Whether products keep their inputs: for trained operands; with Paddle and in mixed units also for frozen ones."""
    return job.trains_all or job.kernels.frozen_inputs or mixes_units(job)


def norm_activations(job: PlannedJob, count: int, outputs: int = 1) -> SavedActivations:
    """Return the activations of `count` norms: saved input, normalised copy if trained, and 4 bytes for the scale.

    Matrices keep the results of `outputs` of them.  Backward: residual 2 h, and five fp32 tensors if it computes in
    fp32 (counted on torch), else two of 2 h; copy and output are freed before.
    """
    m, k = job.model, job.kernels
    saved_in = C if m.norm == "layernorm" else k.norm_in
    out = k.norm_out * outputs / max(1, count) * (not job.recompute.repeats("layernorm"))
    released = (norm_copy_bytes(job) + out) * keeps_inputs(job)
    each = saved_in + released
    chain = 5 * 4.0 if saved_in > C else 2 * C
    return SavedActivations(whole=count * (m.hidden * each + 4.0), gradient=m.hidden * (C + chain - released))


def attention_activations(job: PlannedJob) -> SavedActivations:
    """Return the activations of attention: queries and output 2 a d each, keys and values 2 k d each, statistics 4 a.

    Keys and values are 2 a d each if repeated.  Backward: residual 2 h and the gradients of all four; for a score
    matrix `score_gradient`, when the output is freed and the gradient of the values has replaced the values.
    """
    m, k = job.model, job.kernels
    if m.mla:
        return _latent_attention_activations(job)
    keys = m.q_size if k.repeat_kv or not job.flash else m.kv_size
    kept = C * (m.q_size + 2 * keys)
    # A flash kernel keeps its output and row statistics; the output of a plain product is kept by the next matrix.
    kept += C * m.q_size + 4.0 * m.heads if job.flash else C * m.q_size * keeps_inputs(job)
    # Repeated values are copies, so the fused result is freed; a plain product makes copies as well.
    if (k.shared_qkv and keys == m.kv_size) or (k.as_published and m.fused_qkv and job.flash):
        kept += C * (m.q_size + m.kv_size)
    if (
        k.by_head or (k.as_published and m.partly_rotated)
    ) and job.flash:  # its output, too: reordered for its projection
        kept += C * m.q_size * keeps_inputs(job)
    if m.qk_norm:
        kept += (k.norm_in + norm_copy_bytes(job) * keeps_inputs(job)) * (m.q_size + m.kv_size) + 4.0 * (
            m.heads + m.kv_heads
        )
    kept += k.rotated * (m.q_size + m.kv_size)
    grads = C * (2 * m.q_size + 2 * keys) if job.flash else _plain_gradient(job)
    if job.framework.swaps_heads and job.layout.cp > 1:
        # The kernel keeps its output by heads, the projection the same by tokens.  An exchange has a send and a receive
        # buffer (arXiv 2309.14509; DeepSpeed, sequence/layer.py, single_all_to_all).
        kept += C * m.q_size * keeps_inputs(job) * job.flash
        grads += 2 * C * m.q_size
    return SavedActivations(divided=kept, gradient=C * m.hidden + grads, score=score_bytes(job))


def _latent_attention_activations(job: PlannedJob) -> SavedActivations:
    """Return the activations of latent attention: 2 a (2 (dn + dr) + 2 dv) + 4 a around the kernel, and the latents.

    The latents (rank q + rank kv) are normalised like the input of a layer.  If the value is a view (`latent_views`),
    it keeps the whole up-projection 2 a (dn + dv), and the output, ordered by head, is reordered for its projection:
    2 a dv more if that is trained.
    """
    m, k = job.model, job.kernels
    assert m.mla
    x = m.mla
    heads = C * m.heads * (2 * (x.nope + x.rope) + x.value) + 4.0 * m.heads
    heads += C * m.heads * (x.nope + x.value if k.latent_views and job.flash else x.value)
    heads -= 0.0 if job.flash else C * m.heads * x.value + 4.0 * m.heads
    ordered = C * m.heads * x.value * keeps_inputs(job) * (k.latent_views or not job.flash)
    latent = (x.q_rank + x.kv_rank) * (k.norm_in + (k.norm_copy + k.norm_out) * keeps_inputs(job))
    grads = heads if job.flash else _plain_gradient(job)
    return SavedActivations(
        whole=latent, divided=heads + ordered, gradient=C * m.hidden + grads, score=score_bytes(job)
    )


def score_bytes(job: PlannedJob) -> float:
    """Return the bytes per token of the score matrix (a s elements), 0 with a flash kernel or selective recompute.

    2 a s with a fused softmax, 6 a s if softmax runs in fp32 and is cast back; dropout adds mask and output, 3 a s (the
    5 a s of arXiv 2205.05198), soft capping the result of tanh, 2 a s.
    """
    cast = C * has_wide_scores(job)
    return _score_matrix_bytes(job, job.kernels.score - cast + C * job.model.caps_scores)


def has_wide_scores(job: PlannedJob) -> bool:
    """Whether queries, keys and scores are in fp32, so that the softmax needs no copy: on a lifted residual stream.

    bitsandbytes' matrices return the type of their input; autocast casts it for the product of queries and keys.
    """
    return job.kernels.as_published and is_lifted(job) and not job.framework.autocast


def _plain_gradient(job: PlannedJob) -> float:
    """Return the bytes that the backward pass of the softmax adds, minus the output, which is freed by then.

    A softmax of fp16 scores in fp32 returns their gradient in fp16, unless autocast casts them before.
    """
    k, wide = job.kernels, has_wide_scores(job)
    fused = k.as_published and job.half and not wide and not job.framework.autocast
    each = k.score_gradient + k.score_product + C * wide - C * fused
    return _score_matrix_bytes(job, each) - C * job.model.out_size * keeps_inputs(job)


def _score_matrix_bytes(job: PlannedJob, each: float) -> float:
    if job.flash or job.recompute.repeats("core_attn"):
        return 0.0
    return (each + 3.0 * (job.dropout > 0)) * job.model.heads * job.seq_len


CHAIN = 3 * C  # 0.5 x, tanh and 1 + tanh, in addition to the input (transformers, NewGELUActivation)


def _chains_gelu(job: PlannedJob) -> bool:
    return job.kernels.as_published and job.model.chained_gelu and not job.model.gated


def _mlp_bytes(job: PlannedJob) -> float:
    """Return the bytes per element of an MLP's width: gate, activation, up, and the product if the last is trained.

    A 4- or 8-bit matrix returns the type of its input (bitsandbytes, Linear4bit): fp32 on a lifted residual stream.
    """
    k, gated = job.kernels, job.model.gated
    keep, trained = (k.mlp_keep, k.mlp_trained) if gated else (k.plain_keep, k.plain_trained)
    return keep * (2 if is_lifted(job) else 1) + trained * keeps_inputs(job) + CHAIN * _chains_gelu(job)


def _mlp_gradient(job: PlannedJob) -> float:
    """Return the bytes per element of an MLP's width at its backward peak.

    Gradients of product, activation and up (without a gate: of activation and input), minus the product, which is freed
    by then.
    """
    k, gated = job.kernels, job.model.gated
    several = (3 if gated else 2) * C + C * _chains_gelu(job)
    several *= 2 if is_lifted(job) else 1
    return several - (k.mlp_trained if gated else k.plain_trained) * keeps_inputs(job)


def passing_bytes(job: PlannedJob) -> float:
    """Return the bytes per token at the end of a layer that keeps nothing: of its MLP, its residual and its norm.

    Experts run in parts, of which fewer are there.
    """
    k, m = job.kernels, job.model
    mlp = k.mlp_keep + k.mlp_trained if m.gated else k.plain_keep + k.plain_trained
    return 0.0 if m.moe else mlp * m.ffn + 2 * C * m.hidden


def dense_mlp_activations(job: PlannedJob) -> SavedActivations:
    """Return the activations of an MLP without experts."""
    m = job.model
    return SavedActivations(divided=_mlp_bytes(job) * m.ffn, gradient=C * m.hidden + _mlp_gradient(job) * m.ffn)


def mixture_activations(job: PlannedJob, moe: Moe) -> SavedActivations:
    """Return the activations of a mixture of experts: k (MLP bytes x fe + copies of h) + shared + 4 nE + `choice` k.

    4 nE are the fp32 probabilities of the router, `choice` the indices and weights of routing and sorting.
    `expert_copies`: bytes per element of h that dispatch and combination keep of each of a token's k copies;
    `expert_trained`: what experts keep of their input for their gradient.  A gate on the shared expert keeps its
    output, 2 h.  With Te = 1 < T every rank dispatches its slice of the sequence, else each has all tokens and a slice
    of fe.  Experts that run again leave the two results of their exchange, if there is one.  Assumes a balanced router;
    drop-less dispatch has no bound.
    """
    m, per = job.model, _mlp_bytes(job)
    # Without a gate there is no kernel for the product with the weight, which keeps the activation.
    weighed = C * (job.kernels.weighted_experts and not m.gated)
    product = job.kernels.mlp_trained * keeps_inputs(job) * job.recompute.repeats("moe_act")
    inner = moe.active * (per + weighed - product) * moe.ffn
    copies = moe.active * (job.kernels.expert_copies + job.kernels.expert_trained * keeps_inputs(job)) * m.hidden
    sliced = job.layout.expert_tp < job.layout.tp
    # Quantised experts are modules of their own, of which one runs at a time.
    within = _mlp_gradient(job) * moe.ffn / (moe.experts if job.quant and job.kernels.as_published else 1)
    around = job.kernels.expert_gradient * m.hidden
    again = job.recompute.kind in ("full", "block")
    if moe.fp32_weights:  # with frozen experts also the 16-bit copy, unless recompute frees it
        around = 2 * around + (C * m.hidden if around and not (again or job.trains_all) else 0.0)
    gradient = C * m.hidden + moe.active * max(within, around)
    # A shared expert with a gate runs before the others; without a gate it runs after them, its backward pass first.
    later = 0.0 if moe.shared_gate else per * moe.shared_ffn
    gradient += C * m.hidden * moe.shared_gate - later
    if again and around and not job.trains_all:
        # At the end of a recomputed layer: gradient of the results, dispatched input, weighted results; residual,
        # output of the norm and incoming gradient.
        gradient = max(gradient, 3 * C * (moe.active + 1) * m.hidden - later)
    if job.kernels.experts_again:
        exchanged = 2 * C * moe.active * m.hidden * (job.layout.ep > 1)
        gradient += inner + copies - exchanged
        inner, copies = 0.0, exchanged
    return SavedActivations(
        whole=4.0 * moe.experts
        + job.kernels.choice * moe.active
        + C * m.hidden * moe.shared_gate
        + _router_input(job, moe),
        divided=inner
        + per * moe.shared_ffn * (not job.recompute.repeats("shared_experts"))
        + (copies if sliced else 0.0),
        fixed=0.0 if sliced else copies,
        gradient=gradient,
    )


def _router_input(job: PlannedJob, moe: Moe) -> float:
    """Return the bytes of the copy that a router with a correction bias keeps of its input.

    It casts the input to fp32 (DeepSeek-V3, GLM-4.5, ERNIE 4.5), which autocast casts back: a copy of 2 h for its own
    gradient.  The router of gpt-oss has a plain bias and no copy.
    """
    return C * job.model.hidden * (moe.router_bias and not moe.expert_bias and keeps_inputs(job))


def layer_activations(job: PlannedJob, moe_layer: bool) -> SavedActivations:
    """Return the activations of one layer.

    With four norms (Gemma 2, GLM-4) the last follows the MLP; the backward pass of a recomputed layer starts there,
    with all activations of the layer in memory.
    """
    m = job.model
    inner = mixture_activations(job, m.moe) if moe_layer and m.moe else dense_mlp_activations(job)
    inner = inner.run_again() if job.recompute.repeats("moe" if moe_layer else "mlp") else inner
    masks = SavedActivations(whole=2.0 * m.hidden * (job.dropout > 0))
    behind = int(m.norms > 3)
    between = norm_activations(job, m.norms - 1 - behind) if m.norms > 1 else SavedActivations()
    if m.parallel and m.norms > 1:
        between += SavedActivations(whole=-C * m.hidden)  # both norms keep the same input
    casts = SavedActivations(whole=_cast_input_bytes(job))
    before = norm_activations(job, 1) + attention_adapters(job) + quantised_inputs(job) + masks + casts
    whole = (
        before
        + attention_activations(job)
        + between
        + inner
        + mlp_adapters(job, moe_layer)
        + adapter_cast(job, moe_layer)
    )
    return whole + norm_activations(job, 1, outputs=0) if behind else whole


def _cast_input_bytes(job: PlannedJob) -> float:
    """Return the bytes of further 16-bit copies that autocast makes of the fp32 inputs of products, one for each.

    Of queries, keys and values, and of gate and up: all but the first, which is counted with the norm.
    """
    m, k = job.model, job.kernels
    further = 2 * (not k.shared_qkv and not m.fused_qkv) + m.gated
    return C * m.hidden * further * (casts_weights(job) and keeps_inputs(job))


def rotary_table_bytes(job: PlannedJob) -> float:
    """Return the bytes of cosines and sines for the backward pass: 2 x 2 d s, one table for batch and all layers.

    As in transformers' RotaryEmbedding; for latent attention d is the rotated part.
    """
    m = job.model
    turned = m.mla.rope if m.mla else m.head_dim
    return 0.0 if m.learned_positions else 2 * C * turned * job.seq_len / job.layout.cp


def causal_mask_bytes(job: PlannedJob) -> float:
    """Return the bytes of the causal mask of a micro batch, kept for recomputed layers without a flash kernel.

    `mask` b s^2, twice if only some layers have a window (transformers' masking_utils, counted on torch).
    """
    again = job.recompute.kind in ("full", "block") and not job.flash
    return (1 + job.model.some_windows) * job.kernels.mask * job.seq_len * job.tokens * again


def cached_key_bytes(job: PlannedJob, layers: int) -> float:
    """Return the bytes of keys and values of recomputed layers that the model returns: 2 x 2 k d per token and layer.

    transformers' models do so by default (use_cache), unless they know of the recompute; other layers keep the same
    tensors for their backward pass.
    """
    return 2 * C * job.model.kv_size * job.tokens / job.layout.tp * layers * job.framework.caches_keys


def edge_bytes(job: PlannedJob, first: bool, last: bool) -> float:
    """Return the bytes per token of the model's ends: the final norm, minus the first norm with adapters.

    The output of a frozen embedding needs no gradient, so nothing is kept for the first norm.
    """
    m, k = job.model, job.kernels
    saved_in = C if m.norm == "layernorm" else k.norm_in
    spared = 0.0
    if first and not job.trains_all and "embed" not in job.adapter.saved and job.recompute.kind == "none":
        spared = m.hidden * (saved_in + norm_copy_bytes(job) * k.frozen_inputs)
        if m.qk_norm and job.adapter.targets == "qv":  # the same for the first keys
            spared += k.norm_in * m.kv_size + 4.0 * m.kv_heads
    return (norm_activations(job, 1).kept_bytes if last else 0.0) - spared


def prediction_activations(job: PlannedJob) -> SavedActivations:
    """Return the activations of a multi-token-prediction layer beside those of its transformer layer.

    The embedding's result and both norms' statistics, their joined results 4 h, the last norm; the heads take views of
    one tensor of all results, 2 h for each and 2 h for the model's own (counted on Megatron-core).
    """
    h = job.model.hidden
    return norm_activations(job, 1) + SavedActivations(whole=C * h + 2 * 4.0 + 2 * C * h + C * h / job.model.mtp_layers)


def backward_bytes(job: PlannedJob, layer_gradient: float, working: float, last: bool) -> float:
    """Return the peak bytes per token of the backward pass beyond kept activations and the recomputed layer.

    The peak is at the final norm, which has no residual, or in a layer, after the tensors of that norm are freed.
    """
    final = norm_activations(job, 1)
    if not last:
        return layer_gradient
    return max(0.0, final.gradient - C * job.model.hidden - working, layer_gradient - final.kept_bytes)


def checkpoint_bytes(job: PlannedJob) -> float:
    """Return the bytes per token that full recompute keeps: the input of a layer.

    2 h (4 h if the residual stream is fp32), divided by T with sequence parallelism.
    """
    stream = 2 * C if is_lifted(job) or casts_weights(job) else C
    return stream * job.model.hidden / (job.layout.tp if job.splits_sequence else 1)
