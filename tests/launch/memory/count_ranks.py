"""Measure the memory of real sharded training steps on the CPU: 2 to 4 ranks over gloo, transformers' Llama.

    PYTHONPATH=. torchrun --standalone --nproc-per-node 2 tests/launch/memory/count_ranks.py CASES.json FOLDER

Each rank writes FOLDER/RANK.json, a list with one entry for each case.  A case is {"kind": a key of KINDS, "config":
{...}, "batch": 1, "tokens": 128, "recompute": false, "rank": 0 for full training, "accumulate": 1, "bucket": entries,
"prefetch": entries, "units": whether adapters are FSDP units of their own, "cast": whether autocast alone casts FSDP's
weights, "whole_weights": whether FSDP1 keeps them (SHARD_GRAD_OP), "offload": ["optimizer", "params"]}.
The bytes are those of live storages after and at the peak of each phase of the second step, when moments exist.
"""

from __future__ import annotations

import gc
import importlib
import sys
import weakref
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_leaves, tree_map

from tests.launch.memory.count_torch import add_adapters
from tests.launch.memory.storage_ledger import StorageLedger, count_on_ranks

LOW, FULL = torch.bfloat16, torch.float32


class RankLedger(StorageLedger):
    """Storages of one rank from the start, also those that change their size, by phase; `host` ones do not count.

    `streams`: in which of torch.cpu's each was allocated, which only its context sets there.
    """

    def __init__(self, vocab: int) -> None:
        super().__init__(vocab)
        self.host: set[int] = set()
        self.streams: list[int] = []
        self.marks: list[tuple[str, int]] = []
        self.resize = torch.UntypedStorage.resize_

    def __enter__(self) -> RankLedger:
        resize, ledger = self.resize, self

        def resize_and_record(storage: torch.UntypedStorage, size: int) -> Any:
            result = resize(storage, size)
            ledger.record_storage(storage, "resized")
            return result

        torch.UntypedStorage.resize_ = resize_and_record
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        torch.UntypedStorage.resize_ = self.resize
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d" and not (keeps_tensors(func, args) or is_for_one_peer(func)):
            return run_collective(func, args)
        return super().__torch_dispatch__(func, types, args, kwargs)

    def record_storage(self, storage: torch.UntypedStorage, text: str) -> int:
        count = len(self.sizes)
        number = super().record_storage(storage, text)
        if number == count:
            self.streams.append(id(torch.cpu.current_stream()))
        # Of what no operator made: gloo's copies for a reduction.
        if number == count and text.startswith(("aten.split.", "aten.copy_.")):
            self.host.add(number)
        return number

    def end_phase(self, name: str) -> None:
        self.marks.append((name, len(self.events)))

    def find_numbers(self, tensors: Iterable[Any]) -> set[int]:
        """Return the storages of tensors, for those that a framework holds in attributes."""
        found = (self.record_tensor(t, "held") for t in tree_leaves(tensors) if isinstance(t, torch.Tensor))
        return {number for number in found if number is not None and self.sizes[number] > 64}

    def sum_pools(self) -> int:
        """Return the sum of each stream's peak after loading: what an allocator needs with a pool for each stream."""
        start = dict(self.marks)["load"]
        others = ({n for n, each in enumerate(self.streams) if each != stream} for stream in set(self.streams))
        return sum(self.find_peak(self.host | left_out, start)[0] for left_out in others)

    def sum_phases(self) -> dict[str, dict[str, Any]]:
        """Return for each phase the bytes at its peak and at its end, and the storages at the peak."""
        result, start = {}, 0
        for name, end in self.marks:
            peak, at = self.find_peak(self.host, start, end)
            result[name] = {"peak": peak, "end": self.find_peak(self.host, end, end)[0], "at peak": at}
            start = end
        return result


def keeps_tensors(func: Any, args: Any) -> bool:
    """Whether the result matters: the buckets of DistributedDataParallel are what its reduction returns."""
    return func is torch.ops.c10d.allreduce_.default and args[-1] is not False


def is_for_one_peer(func: Any) -> bool:
    """Whether this sends or receives; two ranks that wait for the end of their own would wait for ever."""
    return str(func).startswith(("c10d.send", "c10d.recv"))


def run_collective(func: Any, args: Any) -> Any:
    """Run a collective to its end, on copies that do not count.

    A thread of gloo holds the tensors of a complete operation until it is next scheduled: in some runs flattened
    gradients would be there together with later tensors.  On a card the order of a stream decides.
    """
    copies = {id(leaf): (leaf, leaf.clone()) for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)}
    result = func(*tree_map(lambda leaf: copies[id(leaf)][1] if id(leaf) in copies else leaf, args))
    for leaf in tree_leaves(result):
        if isinstance(leaf, torch.ScriptObject):
            leaf.wait()
    for original, copy in reversed(copies.values()):  # outputs come first, and may be a part of the inputs
        original.copy_(copy)
    originals = {id(copy): original for original, copy in copies.values()}
    return tree_map(lambda leaf: originals.get(id(leaf), leaf), result)


class Trainer:
    """What differs between the kinds: how a model is wrapped, and who does the backward pass and the step."""

    def __init__(self, model: Any, case: dict[str, Any]) -> None:
        self.model, self.case = model, case
        self.optimizer = make_optimizer(model)

    def compute_loss(self, ids: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", LOW):
            loss: torch.Tensor = self.model(input_ids=ids, labels=ids).loss
        return loss

    def backward(self, loss: torch.Tensor, last: bool) -> None:
        loss.backward()

    def step(self) -> None:
        self.optimizer.step()

    def drop_gradients(self) -> None:
        self.optimizer.zero_grad()

    def list_host_tensors(self) -> Any:
        return ()

    def list_states(self) -> dict[str, Any]:
        """Return the tensors of each kind of state."""
        learners = [p for p in self.model.parameters() if p.requires_grad]
        return {
            "weights": list(self.model.parameters()),
            "gradients": [p.grad for p in learners if p.grad is not None],
            "moments": [list(state.values()) for state in self.optimizer.state.values()],
        }


class ReplicaTrainer(Trainer):
    """DistributedDataParallel; `view`: gradients are views of the buckets."""

    def __init__(self, model: Any, case: dict[str, Any]) -> None:
        plain = torch.nn.parallel.DistributedDataParallel
        super().__init__(plain(model, gradient_as_bucket_view=case.get("view", False)), case)


class SecondFsdpTrainer(Trainer):
    """fully_shard: fp32 shards, computes in bf16, reduces in fp32, as torchtitan does; `edges`: also its units."""

    def __init__(self, model: Any, case: dict[str, Any]) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        policy = MixedPrecisionPolicy(param_dtype=LOW, reduce_dtype=FULL)
        if case.get("edges"):
            fully_shard(model.model.embed_tokens, mesh=mesh, mp_policy=policy)
        for layer in find_layers(model):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        if case.get("edges"):
            ends = [model.model.norm, model.lm_head]
            fully_shard(ends, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        super().__init__(model, case)

    def compute_loss(self, ids: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.model(input_ids=ids, labels=ids).loss
        return loss

    def backward(self, loss: torch.Tensor, last: bool) -> None:
        self.model.set_requires_gradient_sync(last or not self.case.get("whole"))
        loss.backward()


class FirstFsdpTrainer(Trainer):
    """FullyShardedDataParallel: shards in the type of the model, computes and reduces in bf16, as accelerate does.

    `units`: adapters are units of their own, as PEFT's policy makes them, with flat parameters alone.  `cast`: shards
    are gathered as they are, and autocast casts them.
    """

    def __init__(self, model: Any, case: dict[str, Any]) -> None:
        from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy

        wrapped = FullyShardedDataParallel(
            model,
            auto_wrap_policy=choose_units(model, case["units"]),
            mixed_precision=None if case["cast"] else MixedPrecision(LOW, LOW, LOW),
            sharding_strategy=ShardingStrategy.SHARD_GRAD_OP if case.get("whole_weights") else None,
            device_id=torch.device("cpu"),
            use_orig_params=not case["units"],
            limit_all_gathers=True,
        )
        super().__init__(wrapped, case)

    def backward(self, loss: torch.Tensor, last: bool) -> None:
        with nullcontext() if last else self.model.no_sync():
            loss.backward()

    def drop_gradients(self) -> None:
        super().drop_gradients()
        for part in self.list_flat_parameters():
            part.grad = None  # else freed when the next forward pass begins

    def list_flat_parameters(self) -> list[Any]:
        from torch.distributed.fsdp import FullyShardedDataParallel

        units = FullyShardedDataParallel.fsdp_modules(self.model)
        return [unit._handle.flat_param for unit in units if unit._handle]

    def list_states(self) -> dict[str, Any]:
        return {**super().list_states(), "weights": [part._local_shard for part in self.list_flat_parameters()]}


def choose_units(model: Any, adapters: bool) -> Any:
    """Return FSDP's policy: a unit for each layer, and one for each factor of an adapter if `adapters`."""
    from functools import partial

    from torch.distributed.fsdp.wrap import _or_policy, lambda_auto_wrap_policy, transformer_auto_wrap_policy

    layers = partial(transformer_auto_wrap_policy, transformer_layer_cls={type(find_layers(model)[0])})
    if not adapters:
        return layers

    def is_factor(module: Any) -> bool:  # peft/utils/other.py, fsdp_auto_wrap_policy
        weight = getattr(module, "weight", None)
        return not list(module.children()) and weight is not None and weight.requires_grad

    return partial(_or_policy, policies=[partial(lambda_auto_wrap_policy, lambda_fn=is_factor), layers])


class ZeroTrainer(Trainer):
    """DeepSpeed in bf16, with small buckets; its optimizer is torch's AdamW, which steps on the host if offloaded."""

    def __init__(self, model: Any, case: dict[str, Any]) -> None:
        stage, bucket = int(case["kind"][4]), case["bucket"]
        zero: dict[str, Any] = {
            "stage": stage, "reduce_bucket_size": bucket, "allgather_bucket_size": bucket, "overlap_comm": True,
            "contiguous_gradients": True, "stage3_prefetch_bucket_size": case["prefetch"],
            "sub_group_size": case["subgroup"],
            "stage3_max_live_parameters": case["live"], "stage3_max_reuse_distance": case["live"],
            "stage3_param_persistence_threshold": 0,
        }  # fmt: skip
        for part in case["offload"]:
            zero[f"offload_{PARTS[part]}"] = {"device": "cpu", "pin_memory": True}
        config = {
            "train_micro_batch_size_per_gpu": case["batch"], "gradient_accumulation_steps": case["accumulate"],
            "bf16": {"enabled": True}, "zero_optimization": zero, "zero_force_ds_cpu_optimizer": False,
            "zero_allow_untested_optimizer": True,
        }  # fmt: skip
        self.case = case
        optimizer = make_optimizer(model, fused=True)
        self.model, self.optimizer, _, _ = import_deepspeed().initialize(
            model=model, optimizer=optimizer, config=config
        )

    def compute_loss(self, ids: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.model(input_ids=ids, labels=ids).loss
        return loss

    def backward(self, loss: torch.Tensor, last: bool) -> None:
        self.model.backward(loss)
        if not last:
            self.model.step()  # the engine counts the micro batches

    def step(self) -> None:
        self.model.step()

    def drop_gradients(self) -> None:
        pass

    def list_states(self) -> dict[str, Any]:
        o = self.optimizer
        inner = o.optimizer
        masters = getattr(o, "single_partition_of_fp32_groups", None) or getattr(o, "fp32_partitioned_groups_flat", ())
        return {
            "weights": [
                list(self.model.module.parameters()),
                [getattr(p, "ds_tensor", None) for p in self.model.module.parameters()],
            ],
            "master weights": list(masters or ()),
            "moments": [list(state.values()) for state in inner.state.values()],
        }

    def list_host_tensors(self) -> Any:
        """Return what DeepSpeed holds on the host for the parts that are offloaded, by its attributes."""
        o, away = self.optimizer, self.case["offload"]
        held: list[Any] = []
        if "optimizer" in away:
            states = self.list_states()
            held += [states["moments"], [(master, master.grad) for master in states["master weights"]]]
            held += [getattr(o, name, None) for name in HOST_BUFFERS]
        if "params" in away:
            held += [[p.ds_tensor for p in self.model.module.parameters()], o.param_groups_fp16_flat_cpu_memory]
        return held


PARTS = {"optimizer": "optimizer", "params": "param"}
# Of stages 1 and 2: updated weights in 16 bit, gradients of earlier micro batches, one gradient in transit.  Of stage
# 3: the gradients in 16 bit.
HOST_BUFFERS = (
    "param_buffer_of_bit16_for_cpu_offload_groups", "accumulated_grads_in_cpu", "temp_grad_buffer_for_cpu_offload",
    "grad_partitions_flat_buffer",
)  # fmt: skip


KINDS: dict[str, Callable[[Any, dict[str, Any]], Trainer]] = {
    "none": Trainer,
    "ddp": ReplicaTrainer,
    "fsdp1": FirstFsdpTrainer,
    "fsdp2": SecondFsdpTrainer,
    "zero1": ZeroTrainer,
    "zero2": ZeroTrainer,
    "zero3": ZeroTrainer,
}


def make_optimizer(model: Any, fused: bool = False) -> Any:
    """Return AdamW in the form that torch takes by default on a card, or as one kernel, as DeepSpeed's."""
    learners = (p for p in model.parameters() if p.requires_grad)
    return torch.optim.AdamW(learners, lr=1e-4, foreach=not fused, fused=fused)


def find_layers(model: Any) -> Any:
    return next(module for name, module in model.named_modules() if name.endswith("model.layers"))


def build_model(case: dict[str, Any]) -> Any:
    """Return transformers' model of a case with random weights, with optional adapters."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(1)
    config = AutoConfig.for_model(case["type"], **case["config"], use_cache=False)
    width = FULL if case["weight"] == 4 else LOW
    with shard_from_the_start(case["offload"]) if case["kind"] == "zero3" else nullcontext():
        model = AutoModelForCausalLM.from_config(config, dtype=width, attn_implementation="sdpa")
    if case["recompute"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if case["rank"]:
            model.enable_input_require_grads()
    model = add_adapters(model, case)
    model.train()
    return model


def import_deepspeed() -> Any:
    """Return DeepSpeed without its collective in shared memory, which it would compile; gloo does the same.

    What it pins, which changes nothing on a CPU, is noted.
    """
    import deepspeed
    from deepspeed.accelerator import get_accelerator

    # The attribute deepspeed.comm.torch is torch itself, which the package imports.
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None  # type: ignore[attr-defined]
    type(get_accelerator()).pin_memory = note_pinned
    return deepspeed


# The tensors that DeepSpeed asked torch to pin since the case began, and the bytes of their blocks on a card.
PINNED: list[tuple[Callable[[], torch.Tensor | None], int]] = []


def note_pinned(accelerator: Any, tensor: torch.Tensor, *unused: Any, **options: Any) -> torch.Tensor:
    """Note a tensor; torch rounds its bytes up to a power of two (ATen/core/CachingHostAllocator.h)."""
    PINNED.append((weakref.ref(tensor), 1 << (tensor.nbytes - 1).bit_length()))
    return tensor


def shard_from_the_start(offload: list[str]) -> Any:
    """Return DeepSpeed's context that shards parameters when they are made, as transformers' from_pretrained does."""
    zero: dict[str, Any] = {"stage": 3}
    if "params" in offload:
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": zero}
    return import_deepspeed().zero.Init(config_dict_or_path=config)


def count_case(case: dict[str, Any], explain: bool) -> dict[str, Any]:
    """Return the bytes of each phase of the second step, and of the states after it."""
    vocab = case["config"]["vocab_size"]
    ids = torch.randint(0, vocab, (case["accumulate"], case["batch"], case["tokens"]))
    ledger, linear = RankLedger(vocab), torch.nn.functional.linear
    with ledger:
        PINNED.clear()
        model = build_model(case)
        gc.collect()  # modules made by DeepSpeed refer to themselves
        ledger.end_phase("model")
        trainer = KINDS[case["kind"]](model, case)
        dist.barrier()  # ends the broadcast of the parameters
        ledger.end_phase("load")
        for _ in range(2):
            run_step(trainer, ledger, ids)
        states = {name: ledger.find_numbers(tensors) for name, tensors in trainer.list_states().items()}
        host = ledger.find_numbers(trainer.list_host_tensors())
        pinned = ledger.find_numbers([find() for find, _ in PINNED])
        ledger.host |= host
    torch.nn.functional.linear = linear  # ZeRO-3 replaces it for all that comes later
    phases = ledger.sum_phases()
    owner = {number: name for name, numbers in states.items() for number in numbers}
    if explain:
        for name, phase in phases.items():
            print_phase(ledger, name, phase, owner)
    return {
        "pools": ledger.sum_pools(),
        "phases": {name: {"peak": phase["peak"], "end": phase["end"]} for name, phase in phases.items()},
        "states": {name: ledger.sum_sizes(numbers) for name, numbers in states.items()},
        "host": ledger.sum_sizes(host),
        "host blocks": ledger.sum_sizes(host - pinned) + sum(block for _, block in PINNED),
    }


def run_step(trainer: Trainer, ledger: RankLedger, ids: torch.Tensor) -> None:
    """Run one optimizer step, and end the phases: forward and backward are those of the last micro batch."""
    for index, part in enumerate(ids):
        last = index == len(ids) - 1
        # A hook would hold the gathered storage of a parameter that ZeRO-3 gives an empty one after use.
        hooks = torch.autograd.graph.saved_tensors_hooks(ledger.record_saved, lambda t: t)
        with nullcontext() if trainer.case["kind"] == "zero3" else hooks:
            loss = trainer.compute_loss(part)
        ledger.end_phase("forward and loss")
        trainer.backward(loss, last)
        del loss
        ledger.end_phase("backward")
    trainer.step()
    ledger.end_phase("optimizer step")
    trainer.drop_gradients()
    ledger.end_phase("after the step")


def print_phase(ledger: RankLedger, name: str, phase: dict[str, Any], owner: dict[int, str]) -> None:
    """Print the storages at the peak, grouped, to standard error."""
    print(f"== rank {dist.get_rank()}, {name}: peak {phase['peak']}, end {phase['end']}", file=sys.stderr)
    groups: dict[tuple[str, str], list[int]] = {}
    for number in phase["at peak"]:
        kind = owner.get(number) or ("saved" if number in ledger.saved else "")
        if number in ledger.wide:
            kind += " wide"
        if number in ledger.host:
            kind += " HOST"
        groups.setdefault((kind, ledger.shapes[number]), []).append(ledger.sizes[number])
    totals: dict[str, int] = {}
    for (kind, shape), sizes in sorted(groups.items()):
        totals[kind] = totals.get(kind, 0) + sum(sizes)
        if kind.strip() not in ("weights", "moments", "gradients", "saved"):
            print(f"   {sum(sizes):10} {len(sizes):4} {kind or '-':10} {shape}", file=sys.stderr)
    print(f"   {totals}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    count_on_ranks(count_case)
