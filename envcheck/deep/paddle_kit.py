"""What program.py needs of paddle; stands beside it, run by the Python that trains: 3.8 or newer."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


class Kit:
    """`index` counts its devices of this kind."""

    def __init__(self, asked: dict[str, Any]) -> None:
        import paddle

        self.kind, self.p, self.version, self.index = asked["kind"], paddle, str(paddle.__version__), 0

    def count(self) -> int:
        if self.kind == "gpu":
            return int(self.p.device.cuda.device_count())
        names = self.p.device.get_available_custom_device()
        return 1 if self.kind == "cpu" else sum(name.startswith(self.kind + ":") for name in names)

    def types(self) -> list[str]:
        """Kinds of devices whose plugin loaded."""
        built_in = ["gpu"] if self.p.device.is_compiled_with_cuda() else []
        return [*self.p.device.get_all_custom_device_type(), *built_in]

    def own(self) -> int:
        """The device that the launcher gives to this rank."""
        return int(os.environ.get(f"FLAGS_selected_{self.kind}s") or 0)

    def select(self, index: int) -> None:
        self.index = index
        self.p.set_device(self.kind if self.kind == "cpu" else f"{self.kind}:{index}")

    def place(self, index: int) -> Any:
        p = self.p
        own = {"cpu": lambda: p.CPUPlace(), "gpu": lambda: p.CUDAPlace(index)}
        return own.get(self.kind, lambda: p.CustomPlace(self.kind, index))()

    def on_host(self, make: Callable[[], Any]) -> Any:
        self.p.set_device("cpu")
        try:
            return make()
        finally:
            self.select(self.index)

    def normal(self, rows: int, seed: int) -> Any:
        self.p.seed(seed)
        return self.on_host(lambda: self.p.randn([rows, rows]))

    def ramp(self, count: int) -> Any:
        return self.on_host(lambda: (self.p.arange(count, dtype="int32") % 7 + 1).astype("float32"))

    def full(self, count: int, value: float, kind: str) -> Any:
        return self.p.full([count], value, dtype=kind)

    def cast(self, tensor: Any, kind: str) -> Any:
        return tensor.astype(kind)

    def up(self, tensor: Any, index: int) -> Any:
        return tensor._copy_to(self.place(index), True)

    def down(self, tensor: Any) -> Any:
        return tensor.cpu()

    def pinned(self, tensor: Any) -> Any:
        return tensor.pin_memory()

    def fetch(self, tensor: Any, like: Any) -> Any:
        return tensor._copy_to(like.place, True)

    def wait(self, *indices: int) -> None:
        for index in indices if self.kind != "cpu" else ():
            self.p.device.synchronize(f"{self.kind}:{index}")

    def meet(self) -> tuple[int, int]:
        import paddle.distributed as dist

        if self.kind != "gpu":
            self.select(self.own())
        dist.init_parallel_env()
        self.index = self.own()
        return int(dist.get_rank()), int(dist.get_world_size())

    def all_reduce(self, tensor: Any) -> None:
        self.p.distributed.all_reduce(tensor)

    def leave(self) -> None:
        """Nothing to do: paddle's own end tidies up."""
