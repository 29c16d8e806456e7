"""Measure the memory of real steps of Megatron-core on the CPU: tensor and pipeline parallel ranks over gloo.

    PYTHONPATH=.:MEGATRON torchrun --nproc-per-node 2 tests/launch/memory/count_megatron.py CASES.json FOLDER

Each rank writes FOLDER/RANK.json, a list with one entry for each case: the bytes of live storages after loading, at the
peak of forward and backward passes, and of the second optimizer step.  A case has the keys of PLAIN in
test_counted_on_megatron.py.  Calls of torch.cuda find the CPU, and modules keep what those of Transformer Engine do on
a card: a norm its input, a rotation the angles, attention what a flash kernel needs, swiglu gate and up.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest.mock import MagicMock

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from tests.launch.memory.count_ranks import RankLedger, print_phase
from tests.launch.memory.storage_ledger import count_on_ranks


def replace_cuda() -> None:
    """Let Megatron-core's calls of torch.cuda find the CPU: no streams, and torch's own random numbers."""
    from megatron.core.models.common.embeddings import rope_utils
    from megatron.core.tensor_parallel import random

    rope_utils._apply_rotary_pos_emb_bshd = lambda states, angles, *unused, **ignored: Rotation.apply(states, angles)
    cuda: Any = torch.cuda
    cuda.current_device = lambda: torch.device("cpu")
    cuda.synchronize = cuda.empty_cache = lambda *unused: None
    cuda.Stream = cuda.Event = cuda.current_stream = MagicMock()
    cuda.stream = lambda *unused: nullcontext()
    cuda.get_rng_state, cuda.set_rng_state, cuda.manual_seed = (
        torch.get_rng_state,
        torch.set_rng_state,
        torch.manual_seed,
    )
    random._get_cuda_rng_state = lambda *unused, **ignored: torch.get_rng_state()
    random._set_cuda_rng_state = lambda state, *unused, **ignored: torch.set_rng_state(state)
    torch.Tensor.cuda = lambda tensor, *unused, **ignored: tensor  # type: ignore[method-assign, assignment]
    balance_router()


def balance_router() -> None:
    """Let each expert of Megatron-core get as many tokens as every other, by logits to which large ones are added."""
    from megatron.core.transformer.moe import moe_utils, router, token_dispatcher

    moe_utils.te_general_gemm = None
    token_dispatcher.maybe_move_tensor_to_cpu = lambda counts, as_numpy=False, **ignored: (
        counts.numpy() if as_numpy and isinstance(counts, torch.Tensor) else counts
    )
    plain = router.TopKRouter.gating

    def gate(self: Any, states: torch.Tensor) -> torch.Tensor:
        logits = plain(self, states)
        with _disable_current_modes():
            experts, tokens = logits.shape[-1], logits.flatten(0, -2).shape[0]
            chosen = torch.arange(tokens * self.topk).view(tokens, self.topk) % experts
            turns = torch.zeros(tokens, experts).scatter_(1, chosen, 100.0).view_as(logits)
        return logits + turns

    router.TopKRouter.gating = gate


class OnCpu(TorchFunctionMode):
    """Makes on the CPU what is asked for on a card; the names of types are those of a card."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        result = func(*args, **kwargs)
        return (
            result.replace("torch", "torch.cuda") if func is torch.Tensor.type and isinstance(result, str) else result
        )


class NormInFp32(torch.autograd.Function):
    """RMSNorm that keeps its 16-bit input and one number per token, as fused kernels do."""

    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        scale = states.float().pow(2).mean(-1, keepdim=True).add(1e-5).rsqrt()
        ctx.save_for_backward(states, weight, scale)
        return (states.float() * scale).to(states.dtype) * weight

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return normalise_backward(gradients[0], *ctx.saved_tensors)


def normalise_backward(
    gradient: torch.Tensor, states: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both gradients; temporaries, which a fused kernel does not have, are not counted."""
    with _disable_current_modes():
        normal = states.float() * scale
        wide = gradient.float() * weight.float()
        inner = scale * (wide - normal * (wide * normal).mean(-1, keepdim=True))
        return inner.to(states.dtype), (gradient.float() * normal).flatten(0, -2).sum(0).to(weight.dtype)


class Rotation(torch.autograd.Function):
    """Rotary positions that keep the angles only."""

    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(angles)
        return rotate(states, angles)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return rotate(gradients[0], -ctx.saved_tensors[0]), None


def rotate(states: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Return the rotated states; temporaries are not counted."""
    with _disable_current_modes():
        one, other = states.float().chunk(2, -1)
        turned = states.float() * angles.cos() + torch.cat((-other, one), -1) * angles.sin()
        return turned.to(states.dtype)


class FusedNorm(torch.nn.Module):
    """Takes the place of torch's norm in Megatron-core's layer specification."""

    def __init__(self, config: Any, hidden_size: int, eps: float = 1e-5, **unused: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.weight.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]

    def forward(self, states: torch.Tensor) -> Any:
        return NormInFp32.apply(states, self.weight)


class FlashAttention(torch.nn.Module):
    """Takes the place of the core attention: s b a d in, s b (a d) out."""

    def __init__(self, config: Any, **unused: Any) -> None:
        super().__init__()

    def forward(self, query: Any, key: Any, value: Any, attention_mask: Any, **unused: Any) -> Any:
        # Contiguous, as Transformer Engine passes them: the values would keep the joined product, which they view.
        heads = [each.transpose(0, 1).contiguous().transpose(1, 2) for each in (query, key, value)]
        found = functional.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)
        return found.permute(2, 0, 1, 3).flatten(2)


def build_config(case: dict[str, Any]) -> Any:
    from megatron.core.transformer.transformer_config import TransformerConfig

    again, gated = case["recompute"], case["gated"]
    return TransformerConfig(
        **(list_expert_options(case) if case["experts"] else {}),
        num_layers=case["layers"], hidden_size=case["hidden"], num_attention_heads=case["heads"],
        num_query_groups=case["kv_heads"], ffn_hidden_size=case["ffn"], kv_channels=case["head_dim"],
        tensor_model_parallel_size=case["tp"], pipeline_model_parallel_size=case["pp"],
        virtual_pipeline_model_parallel_size=case["chunks"] if case["chunks"] > 1 else None,
        sequence_parallel=case["sequence"], add_bias_linear=False, gated_linear_unit=gated,
        activation_func=functional.silu if gated else functional.gelu, bias_activation_fusion=gated,
        normalization="RMSNorm", hidden_dropout=0.0,
        attention_dropout=0.0, bf16=True, params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16,
        use_cpu_initialization=True, gradient_accumulation_fusion=False, bias_dropout_fusion=False,
        masked_softmax_fusion=False, apply_rope_fusion=False, persist_layer_norm=False,
        deallocate_pipeline_outputs=True, recompute_granularity="full" if again else None,
        recompute_method="uniform" if again else None, recompute_num_layers=1 if again else None,
        mtp_num_layers=case["predictions"] or None, mtp_loss_scaling_factor=0.1,
    )  # fmt: skip


def list_expert_options(case: dict[str, Any]) -> dict[str, Any]:
    return {
        "num_moe_experts": case["experts"], "moe_router_topk": case["active"],
        "moe_ffn_hidden_size": case["expert_ffn"], "expert_model_parallel_size": case["ep"],
        "expert_tensor_parallel_size": 1, "moe_router_dtype": "fp32",
        "moe_token_dispatcher_type": "alltoall", "moe_router_load_balancing_type": "none",
    }  # fmt: skip


def build_prediction_spec(config: Any, layer: Any, chunk: int) -> Any:
    """Return what builds the multi-token-prediction layers of the last stage, None on others."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_mtp_block_spec

    found = get_gpt_mtp_block_spec(config, layer, use_transformer_engine=False, vp_stage=chunk)
    for each in found.layer_specs if found else ():
        each.submodules.enorm = each.submodules.hnorm = each.submodules.layer_norm = FusedNorm
    return found


def build_chunk(case: dict[str, Any], config: Any, chunk: int) -> Any:
    """Return one of the model chunks of this rank, the whole stage without interleaving."""
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer.transformer_block import TransformerBlockSubmodules

    layer = get_gpt_layer_local_spec(
        normalization="RMSNorm", num_experts=case["experts"] or None, moe_grouped_gemm=False
    )
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = FusedNorm
    layer.submodules.self_attention.submodules.core_attention = FlashAttention
    count = case["layers"] // case["pp"] // case["chunks"]
    first = parallel_state.is_pipeline_first_stage(ignore_virtual=True) and chunk == 0
    last = parallel_state.is_pipeline_last_stage(ignore_virtual=True) and chunk == case["chunks"] - 1
    return GPTModel(
        config=config, transformer_layer_spec=TransformerBlockSubmodules([layer] * count, layer_norm=FusedNorm),
        vocab_size=case["vocab"], max_sequence_length=case["tokens"], pre_process=first, post_process=last,
        share_embeddings_and_output_weights=False, position_embedding_type="rope", vp_stage=chunk,
        mtp_block_spec=build_prediction_spec(config, layer, chunk) if case["predictions"] else None,
    ).bfloat16()  # fmt: skip


def make_optimizer(chunks: list[Any], config: Any) -> Any:
    """Return the chunks with Megatron's gradient buffers, and their optimizer with fp32 copies."""
    from megatron.core import optimizer as optimizers
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig

    reduction = DistributedDataParallelConfig(grad_reduce_in_fp32=True)
    wrapped = [DistributedDataParallel(config, reduction, chunk) for chunk in chunks]
    adam = optimizers.OptimizerConfig(optimizer="adam", lr=1e-4, bf16=True, params_dtype=torch.bfloat16, clip_grad=0.0)
    optimizer = optimizers.get_megatron_optimizer(adam, wrapped)
    for group in optimizer.param_groups:
        group["fused"] = True  # one kernel, as Transformer Engine's
    return wrapped, optimizer


def count_case(case: dict[str, Any], explain: bool) -> dict[str, Any]:
    """Return the bytes of each phase of the second step."""
    from megatron.core import parallel_state, tensor_parallel

    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(
        case["tp"], case["pp"], virtual_pipeline_model_parallel_size=case["chunks"] if case["chunks"] > 1 else None,
        expert_model_parallel_size=case["ep"], expert_tensor_parallel_size=1,
    )  # fmt: skip
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    ids = torch.randint(0, case["vocab"], (case["batch"], case["tokens"]))
    ledger = RankLedger(case["vocab"] // case["tp"])
    with OnCpu(), ledger:
        config = build_config(case)
        plain = [build_chunk(case, config, chunk) for chunk in range(case["chunks"])]
        ledger.end_phase("load")
        model, optimizer = make_optimizer(plain, config)
        ledger.end_phase("initialisation")
        for _ in range(2):
            run_step(model, optimizer, ledger, (case, ids))
    phases = ledger.sum_phases()
    if explain:
        for name, phase in phases.items():
            print_phase(ledger, name, phase, {})
    return {name: {"peak": phase["peak"], "end": phase["end"]} for name, phase in phases.items()}


def run_step(chunks: Any, optimizer: Any, ledger: RankLedger, inputs: tuple[dict[str, Any], torch.Tensor]) -> None:
    from megatron.core.pipeline_parallel import get_forward_backward_func

    case, ids = inputs
    positions = torch.arange(case["tokens"]).unsqueeze(0)

    def run_forward(unused: Any, model: Any) -> tuple[Any, Callable[[Any], Any]]:
        return model(ids, positions, None, labels=ids), lambda losses: (losses.float().mean(), {})

    for chunk in chunks:
        chunk.zero_grad_buffer()
    optimizer.zero_grad()
    ledger.end_phase("before the step")
    get_forward_backward_func()(
        forward_step_func=run_forward, data_iterator=[iter(()) for _ in chunks], model=chunks,
        num_microbatches=case["batches"], seq_length=case["tokens"], micro_batch_size=case["batch"],
        forward_only=False,
    )  # fmt: skip
    ledger.end_phase("forward and backward")
    optimizer.step()
    ledger.end_phase("optimizer step")


if __name__ == "__main__":
    replace_cuda()
    count_on_ranks(count_case)
