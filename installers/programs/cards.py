"""Multiplies matrices on one card after the other and writes how far each product is from the processor's.

Usage: cards.py KIT TYPE MODULE, KIT paddle or torch; MODULE registers the devices with torch ("": torch has them).
Prints one line: ENVCHECK {"type", "types", "cards": [error, ...]}, an error as a share of the product's largest value.
Judges nothing.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy

Product = Callable[[int, Any, Any], Any]

SIZE = 256


def paddle_cards(kind: str, module: str) -> tuple[list[str], int, Product]:
    import paddle

    types = [*paddle.device.get_all_custom_device_type(), *(["gpu"] if paddle.device.is_compiled_with_cuda() else [])]
    if kind == "gpu":
        count = paddle.device.cuda.device_count()
    else:
        count = sum(name.startswith(kind + ":") for name in paddle.device.get_available_custom_device())

    def product(index: int, a: Any, b: Any) -> Any:
        paddle.set_device(f"{kind}:{index}")
        return paddle.matmul(paddle.to_tensor(a), paddle.to_tensor(b)).numpy()

    return types, count, product


def torch_cards(kind: str, module: str) -> tuple[list[str], int, Product]:
    import torch

    if module:
        importlib.import_module(module)
    devices = getattr(torch, kind)

    def product(index: int, a: Any, b: Any) -> Any:
        place = f"{kind}:{index}"
        return (torch.tensor(a, device=place) @ torch.tensor(b, device=place)).cpu().numpy()

    return [kind] if devices.is_available() else [], devices.device_count(), product


def main(kit: str, kind: str, module: str) -> None:
    types, count, product = {"paddle": paddle_cards, "torch": torch_cards}[kit](kind, module)
    errors = []
    for index in range(count):
        draw = numpy.random.default_rng(index + 1)
        a, b = (draw.standard_normal((SIZE, SIZE)).astype("float32") for _ in range(2))
        right = a.astype("float64") @ b.astype("float64")
        errors.append(float(abs(product(index, a, b) - right).max() / abs(right).max()))
        sys.stderr.write(f"card {index + 1} of {count}\n")
    print("\nENVCHECK " + json.dumps({"type": kind, "types": types, "cards": errors}))


if __name__ == "__main__":
    main(*sys.argv[1:4])
