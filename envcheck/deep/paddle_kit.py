"""The paddle functions that program.py uses; in the same folder, run by the Python that trains, 3.8 or newer."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


class PaddleKit:
    """Tensor operations on devices of one kind; `index` is the selected device, counted per kind."""

    def __init__(self, asked: dict[str, Any]) -> None:
        import paddle

        self.kind, self.p, self.version, self.index = asked["kind"], paddle, str(paddle.__version__), 0

    def count_devices(self) -> int:
        """Return the number of devices of this kind."""
        if self.kind in self._built_in_types():
            return int((self.p.device.cuda if self.kind == "gpu" else self.p.device.xpu).device_count())
        names = self.p.device.get_available_custom_device()
        return 1 if self.kind == "cpu" else sum(name.startswith(self.kind + ":") for name in names)

    def list_types(self) -> list[str]:
        """Return the device types that this build of paddle has, and those whose plugin is loaded."""
        return [*self.p.device.get_all_custom_device_type(), *self._built_in_types()]

    def _built_in_types(self) -> list[str]:
        has = {"gpu": self.p.device.is_compiled_with_cuda(), "xpu": self.p.device.is_compiled_with_xpu()}
        return [kind for kind, built in has.items() if built]

    def own_device(self) -> int:
        """Return the device that the launcher assigned to this rank."""
        return int(os.environ.get(f"FLAGS_selected_{self.kind}s") or 0)

    def select_device(self, index: int) -> None:
        """Make the device current.

        With the type alone, paddle takes the number from the launcher's variable; a name such as xpu:1 is read as a
        built-in type even where a plugin has this type.
        """
        self.index = index
        os.environ[f"FLAGS_selected_{self.kind}s"] = str(index)
        self.p.set_device(f"gpu:{index}" if self.kind == "gpu" else self.kind)

    def device_place(self, index: int) -> Any:
        """Return the framework's object for a device."""
        p = self.p
        if self.kind == "cpu":
            return p.CPUPlace()
        if self.kind in self._built_in_types():
            return p.CUDAPlace(index) if self.kind == "gpu" else p.XPUPlace(index)
        return p.CustomPlace(self.kind, index)

    def make_on_host(self, make: Callable[[], Any]) -> Any:
        """Create a tensor on the host."""
        self.p.set_device("cpu")
        try:
            return make()
        finally:
            self.select_device(self.index)

    def make_normal(self, rows: int, seed: int) -> Any:
        """Return a square float32 matrix of normal values on the host, the same for the same seed."""
        self.p.seed(seed)
        return self.make_on_host(lambda: self.p.randn([rows, rows]))

    def make_ramp(self, count: int) -> Any:
        """Return 1, 2, ..., 7, 1, ... as float32 on the host: sums of it are exact."""
        return self.make_on_host(lambda: (self.p.arange(count, dtype="int32") % 7 + 1).astype("float32"))

    def make_full(self, count: int, value: float, kind: str) -> Any:
        """Return a vector of one value on the current device; `kind` is the dtype."""
        return self.p.full([count], value, dtype=kind)

    def cast(self, tensor: Any, kind: str) -> Any:
        """Return the tensor with another dtype."""
        return tensor.astype(kind)

    def copy_to_device(self, tensor: Any, index: int) -> Any:
        """Return a copy of the tensor on a device."""
        return tensor._copy_to(self.device_place(index), True)

    def copy_to_host(self, tensor: Any) -> Any:
        """Return a copy of the tensor on the host."""
        return tensor.cpu()

    def pin_memory(self, tensor: Any) -> Any:
        """Return the host tensor in page-locked memory."""
        return tensor.pin_memory()

    def copy_back(self, tensor: Any, like: Any) -> Any:
        """Return a host copy of a device tensor, in page-locked memory if `like` is."""
        return tensor._copy_to(like.place, True)

    def synchronize(self, *indices: int) -> None:
        """Wait until these devices have finished their work."""
        for index in indices if self.kind != "cpu" else ():
            self.p.device.synchronize(self.device_place(index))

    def join_ranks(self) -> tuple[int, int]:
        """Join the other ranks; return (rank, number of ranks)."""
        import paddle.distributed as dist

        if self.kind != "gpu":
            self.select_device(self.own_device())
        dist.init_parallel_env()
        self.index = self.own_device()
        return int(dist.get_rank()), int(dist.get_world_size())

    def all_reduce(self, tensor: Any) -> None:
        """Sum the tensor over all ranks, in place."""
        self.p.distributed.all_reduce(tensor)

    def leave_ranks(self) -> None:
        """Do nothing: paddle cleans up at exit."""
