"""The torch functions that program.py uses; in the same folder, run by the Python that trains, 3.8 or newer."""

from __future__ import annotations

import importlib
import os
from typing import Any


class TorchKit:
    """Tensor operations on devices of one kind; `index` is the selected device.  The request's `module` registers the
    kind."""

    def __init__(self, asked: dict[str, Any]) -> None:
        import torch

        if asked.get("module"):
            importlib.import_module(asked["module"])
        self.kind, self.t, self.version, self.index = asked["kind"], torch, str(torch.__version__), 0
        self.module, self.backend = getattr(torch, self.kind), asked.get("backend")

    def count_devices(self) -> int:
        """Return the number of devices of this kind."""
        return 1 if self.kind == "cpu" else int(self.module.device_count())

    def list_types(self) -> list[str]:
        """Return the device types whose plugin is loaded."""
        return [self.kind] if self.module.is_available() else []

    def own_device(self) -> int:
        """Return the device that the launcher assigned to this rank."""
        return int(os.environ["LOCAL_RANK"])

    def select_device(self, index: int) -> None:
        """Make the device current."""
        self.index = index
        if self.kind != "cpu":
            self.module.set_device(index)

    def device_place(self, index: int) -> str:
        """Return the framework's name for a device."""
        return self.kind if self.kind == "cpu" else f"{self.kind}:{index}"

    def make_normal(self, rows: int, seed: int) -> Any:
        """Return a square float32 matrix of normal values on the host, the same for the same seed."""
        return self.t.randn(rows, rows, generator=self.t.Generator().manual_seed(seed))

    def make_ramp(self, count: int) -> Any:
        """Return 1, 2, ..., 7, 1, ... as float32 on the host: sums of it are exact."""
        return (self.t.arange(count, dtype=self.t.int32) % 7 + 1).to(self.t.float32)

    def make_full(self, count: int, value: float, kind: str) -> Any:
        """Return a vector of one value on the current device; `kind` is the dtype."""
        return self.t.full((count,), value, dtype=getattr(self.t, kind), device=self.device_place(self.index))

    def cast(self, tensor: Any, kind: str) -> Any:
        """Return the tensor with another dtype."""
        return tensor.to(getattr(self.t, kind))

    def copy_to_device(self, tensor: Any, index: int) -> Any:
        """Return a copy of the tensor on a device."""
        return tensor.to(self.device_place(index), copy=True)

    def copy_to_host(self, tensor: Any) -> Any:
        """Return a copy of the tensor on the host."""
        return tensor.cpu()

    def pin_memory(self, tensor: Any) -> Any:
        """Return the host tensor in page-locked memory."""
        return tensor.pin_memory()

    def copy_back(self, tensor: Any, like: Any) -> Any:
        """Return a host copy of a device tensor, in page-locked memory if `like` is."""
        return self.t.empty_like(like, pin_memory=like.is_pinned()).copy_(tensor)

    def synchronize(self, *indices: int) -> None:
        """Wait until these devices have finished their work."""
        for index in indices if self.kind != "cpu" else ():
            self.module.synchronize(index)

    def join_ranks(self) -> tuple[int, int]:
        """Join the other ranks; return (rank, number of ranks)."""
        import torch.distributed as dist

        self.select_device(self.own_device())
        dist.init_process_group(self.backend)
        return dist.get_rank(), dist.get_world_size()

    def all_reduce(self, tensor: Any) -> None:
        """Sum the tensor over all ranks, in place."""
        self.t.distributed.all_reduce(tensor)

    def leave_ranks(self) -> None:
        """Leave the process group."""
        self.t.distributed.destroy_process_group()
