"""Memory of the loss: logits and their gradients, in bytes per token and vocabulary entry.

torch's cross entropy: 16-bit logits 2, their fp32 copy 4, log-softmax 4; backward: the log-softmax 4, its incoming
gradient 4, the outgoing one 4 and its 16-bit cast 2.  Which of these exist at the same time depends on the
framework (frameworks.toml).  Vocabulary-parallel losses divide by T.  Soft capping, cap x tanh(logits / cap), keeps the
result of tanh: 2 (counted on torch); fused losses cap one chunk at a time.
"""

from __future__ import annotations

from launch.memory.planned_job import PlannedJob
from launch.memory.quantised import is_lifted
from launch.memory.saved_activations import C


def tokens_at_once(job: PlannedJob) -> float:
    """Return the tokens whose logits exist at the same time: all, at most the chunk size, or tokens x h/V."""
    chunk = job.framework.fused_chunk
    if chunk < 0:
        return job.tokens * min(1.0, job.model.hidden / job.model.vocab)
    return min(job.tokens, float(chunk)) if chunk else job.tokens


def takes_half_logits(job: PlannedJob) -> bool:
    """Whether the loss is computed from 16-bit logits.

    So in DeepSpeed's fp16 for models that leave them in 16 bit, and in loops without autocast that compute the loss
    themselves, unless the head is fp32.
    """
    f = job.framework
    plain_head = job.precision.weight == 2.0 and not is_lifted(job)
    engine = job.model.half_logits and job.half and job.sharding.startswith("zero")
    return engine or (plain_head and not f.autocast and not f.computes_loss)


def kept_logit_bytes(job: PlannedJob) -> float:
    """Return the bytes per logit that the model's output keeps during the backward pass: 4 if the head is in fp32."""
    kept = job.framework.kept_logits
    return max(kept, 2 * C) if kept and is_lifted(job) else kept


def output_bytes(job: PlannedJob) -> float:
    """Return the bytes of the logits in the model's output, which lives during the backward pass; 0 without them."""
    return 0.0 if job.fused_loss else kept_logit_bytes(job) * job.model.vocab / job.layout.tp * job.tokens


def further_predictions(job: PlannedJob, each: float) -> float:
    """Return the bytes of the losses of multi-token-prediction layers, which are kept during the model's own.

    All but the 16-bit logits, of which those of the last prediction are there, too (Megatron-core, gpt_model.py).
    """
    return job.model.mtp_layers * (each - C) + C if job.model.mtp_layers else 0.0


def loss_bytes(job: PlannedJob) -> float:
    """Return the bytes of the loss: bytes x V / T per token of a micro batch.

    Chunked: for the tokens of a chunk, plus a gradient of 2 h per token, and if the head is trained and the gradients
    are computed chunk by chunk, `fused_head` times that of the head.
    """
    f, vocab = job.framework, job.model.vocab / job.layout.tp
    if job.fused_loss:
        head = f.fused_head * C * vocab * job.model.hidden * job.trains_all
        each = f.compiled_fused if job.compiled and f.compiled_fused else f.fused
        each += further_predictions(job, each)
        return each * vocab * tokens_at_once(job) + C * job.model.hidden * job.tokens + head
    own = f.loss if job.trains_all else f.adapter_loss or f.loss
    divided = f.parallel_loss if job.layout.tp > 1 else 0.0
    whole = (f.compiled_loss if job.compiled else 0.0) or divided or own
    plain = f.loss_half if takes_half_logits(job) else whole + kept_logit_bytes(job)
    plain += C * job.model.caps_logits + job.compute - C  # the gradient has the type of the logits
    plain += further_predictions(job, plain)
    return plain * (f.pair_loss if job.pairs else 1.0) * vocab * job.tokens
