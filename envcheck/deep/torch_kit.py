"""What program.py needs of torch; stands beside it, run by the Python that trains: 3.8 or newer."""

from __future__ import annotations

import importlib
import os
from typing import Any


class Kit:
    """`index` counts devices of this kind; the module that is asked for registers it with torch."""

    def __init__(self, asked: dict[str, Any]) -> None:
        import torch

        if asked.get("module"):
            importlib.import_module(asked["module"])
        self.kind, self.t, self.version, self.index = asked["kind"], torch, str(torch.__version__), 0
        self.module, self.backend = getattr(torch, self.kind), asked.get("backend")

    def count(self) -> int:
        return 1 if self.kind == "cpu" else int(self.module.device_count())

    def types(self) -> list[str]:
        """Kinds of devices that can be used."""
        return [self.kind] if self.module.is_available() else []

    def own(self) -> int:
        return int(os.environ["LOCAL_RANK"])

    def select(self, index: int) -> None:
        self.index = index
        if self.kind != "cpu":
            self.module.set_device(index)

    def place(self, index: int) -> str:
        return self.kind if self.kind == "cpu" else f"{self.kind}:{index}"

    def normal(self, rows: int, seed: int) -> Any:
        return self.t.randn(rows, rows, generator=self.t.Generator().manual_seed(seed))

    def ramp(self, count: int) -> Any:
        return (self.t.arange(count, dtype=self.t.int32) % 7 + 1).to(self.t.float32)

    def full(self, count: int, value: float, kind: str) -> Any:
        return self.t.full((count,), value, dtype=getattr(self.t, kind), device=self.place(self.index))

    def cast(self, tensor: Any, kind: str) -> Any:
        return tensor.to(getattr(self.t, kind))

    def up(self, tensor: Any, index: int) -> Any:
        return tensor.to(self.place(index), copy=True)

    def down(self, tensor: Any) -> Any:
        return tensor.cpu()

    def pinned(self, tensor: Any) -> Any:
        return tensor.pin_memory()

    def fetch(self, tensor: Any, like: Any) -> Any:
        return self.t.empty_like(like, pin_memory=like.is_pinned()).copy_(tensor)

    def wait(self, *indices: int) -> None:
        for index in indices if self.kind != "cpu" else ():
            self.module.synchronize(index)

    def meet(self) -> tuple[int, int]:
        import torch.distributed as dist

        self.select(self.own())
        dist.init_process_group(self.backend)
        return dist.get_rank(), dist.get_world_size()

    def all_reduce(self, tensor: Any) -> None:
        self.t.distributed.all_reduce(tensor)

    def leave(self) -> None:
        self.t.distributed.destroy_process_group()
