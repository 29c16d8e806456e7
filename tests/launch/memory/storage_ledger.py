"""Follow every tensor storage of a step on the CPU: when it is allocated and when it is released.

A dispatch mode sees what each operator returns; whoever counts a step records what else appears: tensors that autograd
saves, that change their size, or that a framework holds.
"""

from __future__ import annotations

import json
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class StorageLedger(TorchDispatchMode):
    """Allocations and releases of storages in order; `saved`: kept by autograd, `wide`: as wide as the vocabulary.

    The storages of `known` tensors do not count.  A storage that changes its size ends, and another one begins.
    """

    def __init__(self, vocab: int, known: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self.vocab = vocab
        self.names: dict[int, int] = {}
        self.sizes: list[int] = []
        self.shapes: list[str] = []
        self.events: list[tuple[int, int]] = []
        self.saved: set[int] = set()
        self.wide: set[int] = set()
        self.known = {t.untyped_storage()._cdata for t in known}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.add.Tensor and self.sums_gradients(*args):
            func = torch.ops.aten.add_.Tensor
        result = multiply_in_fp32(func, args) if func in PRODUCTS and not kwargs else func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.record_tensor(leaf, str(func))
        return result

    def sums_gradients(self, one: Any, other: Any) -> bool:
        """Whether autograd adds these, the two gradients of a tied embedding, in place.

        It does so to a gradient that is the only use of its storage, but not under a dispatch mode
        (torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace).  A linear layer's is a view of its transpose,
        unless autocast copied it or DeepSpeed's own function made it.
        """
        table = isinstance(other, torch.Tensor) and one.dim() == 2 and one.shape[0] == self.vocab
        return bool(table and one.shape == other.shape and not torch.is_grad_enabled() and not one._is_view())

    def record_tensor(self, tensor: torch.Tensor, source: str) -> int | None:
        """Return the number of the tensor's storage, assigned on its first use; None for known ones."""
        tensor = getattr(tensor, "_local_tensor", tensor)
        if tensor.device.type != "cpu" or tensor.untyped_storage()._cdata in self.known:
            return None
        number = self.record_storage(tensor.untyped_storage(), f"{source} {tuple(tensor.shape)} {tensor.dtype}")
        if tensor.dim() > 1 and tensor.shape[-1] == self.vocab:
            self.wide.add(number)
        return number

    def record_storage(self, storage: torch.UntypedStorage, text: str) -> int:
        """Return the number of the storage, a new one if its size has changed."""
        key, size = storage._cdata, storage.nbytes()
        number = self.names.get(key)
        if number is not None and self.sizes[number] == size:
            return number
        if number is None:
            weakref.finalize(storage, self.record_end, key)
        else:
            self.events.append((number, -1))
        number = self.names[key] = len(self.sizes)
        self.sizes.append(size)
        self.shapes.append(text)
        self.events.append((number, 1))
        return number

    def record_end(self, key: int) -> None:
        self.events.append((self.names.pop(key), -1))

    def record_saved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Hook for autograd: note the storage of a tensor that it saves."""
        number = self.record_tensor(tensor, "saved")
        if number is not None and tensor.numel() > 1:
            self.saved.add(number)
        return tensor

    def sum_sizes(self, numbers: Iterable[int]) -> int:
        return sum(self.sizes[n] for n in numbers)

    def find_peak(self, left_out: set[int], start: int = 0, end: int | None = None) -> tuple[int, list[int]]:
        """Return the peak bytes from just before event `start` to `end`, and its storages, without `left_out`."""
        alive: set[int] = set()
        now = most = 0
        at: list[int] = []
        for index, (number, sign) in enumerate(self.events[:end], 1):
            if number not in left_out:
                now += sign * self.sizes[number]
                (alive.add if sign > 0 else alive.discard)(number)
            if index >= start and now > most:
                most, at = now, sorted(alive)
        return most, at


PRODUCTS = {getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "bmm", "baddbmm")}


def multiply_in_fp32(func: Any, args: Any) -> torch.Tensor:
    """Compute a bf16 matrix product in fp32: a CPU without bf16 is twenty times slower in bf16.

    The ledger records the same result; the temporaries in here are not recorded.
    """
    kinds = {each.dtype for each in args if isinstance(each, torch.Tensor)}
    if kinds != {torch.bfloat16}:
        result: torch.Tensor = func(*args)
        return result
    result = func(*(each.float() if isinstance(each, torch.Tensor) else each for each in args))
    return result.to(torch.bfloat16)


def count_on_ranks(count_case: Callable[[dict[str, Any], bool], dict[str, Any]]) -> None:
    """Count the cases of a file on this rank, and write what was found to RANK.json in a folder.

    The command line has the file, the folder, and perhaps --explain, which prints the storages at each peak.
    """
    cases, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = [count_case(case, "--explain" in sys.argv) for case in cases]
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.barrier()
    os._exit(0)  # gloo's threads may abort an interpreter that unwinds
