"""Small decoders of paddle's layers, written like PaddleFormers' models without fused kernels.

The CPU has no bf16 kernels: every type is the next wider one, NARROW for bf16 and WIDE for fp32, so all bytes are twice
those of a card.  Needs only paddle; tests/launch/memory/count_paddle.py runs it.
"""

from __future__ import annotations

import math
from typing import Any

import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute
from paddle.incubate.nn.functional import swiglu
from paddle.nn import functional

NARROW, WIDE = "float32", "float64"


class Linear(nn.Linear):  # type: ignore[misc, unused-ignore]
    """y = x W + b, with adapters + (x A) B alpha / rank and a frozen W."""

    def __init__(self, inner: int, outer: int, rank: int, bias: bool = False) -> None:
        super().__init__(inner, outer, bias_attr=None if bias else False)
        self.rank = rank
        if rank:
            self.weight.stop_gradient = True
            if bias:
                self.bias.stop_gradient = True
            self.lora_a = self.create_parameter([inner, rank])
            self.lora_b = self.create_parameter([rank, outer])

    def forward(self, x: Any) -> Any:
        y = functional.linear(x, self.weight, self.bias)
        if self.rank:
            y += (x @ self.lora_a @ self.lora_b) * (2.0 / self.rank)
        return y


class Norm(nn.Layer):  # type: ignore[misc, unused-ignore]
    """RMS norm in the wide type; the second operand of the product is cast once more."""

    def __init__(self, size: int, learns: bool) -> None:
        super().__init__()
        self.weight = self.create_parameter([size], default_initializer=nn.initializer.Constant(1.0))
        self.weight.stop_gradient = not learns

    def forward(self, x: Any) -> Any:
        square = x.astype(WIDE).pow(2).mean(-1, keepdim=True)
        return (paddle.rsqrt(square + 1e-6) * x.astype(WIDE)).astype(NARROW) * self.weight


class Attention(nn.Layer):  # type: ignore[misc, unused-ignore]
    """Attention with one matrix for queries, keys and values; plain products and a softmax in the wide type."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.heads, self.groups, self.size = case["heads"], case["kv_heads"], case["head_dim"]
        inner, rank = self.heads * self.size, case["rank"]
        self.qkv = Linear(case["hidden"], inner + 2 * self.groups * self.size, rank, case["bias"])
        self.out = Linear(inner, case["hidden"], rank)

    def forward(self, x: Any, cosine: Any, sine: Any, mask: Any) -> Any:
        batch, length, _ = x.shape
        times = self.heads // self.groups
        joined = self.qkv(x).reshape([batch, length, self.groups, (times + 2) * self.size])
        query, key, value = paddle.split(joined, [times * self.size, self.size, self.size], axis=-1)
        query = query.reshape([batch, length, self.heads, self.size])
        query, key, value = (t.transpose([0, 2, 1, 3]) for t in (query, key, value))
        query, key = rotate_half(query, cosine, sine), rotate_half(key, cosine, sine)
        key, value = repeat_heads(key, times), repeat_heads(value, times)
        scores = paddle.matmul(query, key.transpose([0, 1, 3, 2])) / math.sqrt(self.size) + mask
        shares = functional.softmax(scores.astype(WIDE), axis=-1).astype(NARROW)
        mixed = paddle.matmul(shares, value).transpose([0, 2, 1, 3])
        return self.out(mixed.reshape([batch, length, self.heads * self.size]))


def rotate_half(x: Any, cosine: Any, sine: Any) -> Any:
    left, right = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return x * cosine + paddle.concat([-right, left], axis=-1) * sine


def repeat_heads(x: Any, times: int) -> Any:
    """Repeat each key and value head for every query head of its group."""
    if times == 1:
        return x
    batch, heads, length, size = x.shape
    return x.unsqueeze(2).expand([batch, heads, times, length, size]).reshape([batch, heads * times, length, size])


class Mlp(nn.Layer):  # type: ignore[misc, unused-ignore]
    """MLP with gate and up in one matrix; separate silu and product, or paddle's fused swiglu."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.fused = case["swiglu"]
        self.up = Linear(case["hidden"], 2 * case["ffn"], case["rank"])
        self.down = Linear(case["ffn"], case["hidden"], case["rank"])

    def forward(self, x: Any) -> Any:
        if self.fused:
            return self.down(swiglu(self.up(x)))
        gate, up = self.up(x).chunk(2, axis=-1)
        return self.down(functional.silu(gate) * up)


class Layer(nn.Layer):  # type: ignore[misc, unused-ignore]
    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        learns = not case["rank"]
        self.before, self.attention = Norm(case["hidden"], learns), Attention(case)
        self.between, self.mlp = Norm(case["hidden"], learns), Mlp(case)

    def forward(self, x: Any, cosine: Any, sine: Any, mask: Any) -> Any:
        x = x + self.attention(self.before(x), cosine, sine, mask)
        return x + self.mlp(self.between(x))


class Decoder(nn.Layer):  # type: ignore[misc, unused-ignore]
    """Computes the normalised states before the head from tokens, and the loss from these."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.case, learns = case, not case["rank"]
        start = nn.initializer.Normal(0.0, 0.02)
        wide = [case["vocab"], case["hidden"]]
        self.embedding = self.create_parameter(wide, default_initializer=start)
        self.layers = nn.LayerList([Layer(case) for _ in range(case["layers"])])
        self.norm = Norm(case["hidden"], learns)
        self.head = None if case["tied"] else self.create_parameter(wide[::-1], default_initializer=start)
        for one in (self.embedding, self.head):
            if one is not None:
                one.stop_gradient = not learns

    def forward(self, ids: Any) -> Any:
        length, size = ids.shape[1], self.case["head_dim"]
        speed = 10000.0 ** (-paddle.arange(0, size, 2).astype(NARROW) / size)
        angle = paddle.arange(length).astype(NARROW).unsqueeze(1) * speed
        angle = paddle.concat([angle, angle], axis=-1).reshape([1, 1, length, size])
        ahead = paddle.triu(paddle.full([length, length], -1e9, NARROW), 1)
        given = paddle.cos(angle), paddle.sin(angle), ahead.expand([ids.shape[0], 1, length, length])
        x = functional.embedding(ids, self.embedding)
        if self.case["rank"] and self.case["recompute"]:
            x.stop_gradient = False  # otherwise no later tensor would have a gradient
        for layer in self.layers:
            x = recompute(layer, x, *given) if self.case["recompute"] else layer(x, *given)
        return self.norm(x)

    def compute_loss(self, states: Any, labels: Any) -> Any:
        weight, across = (self.embedding, True) if self.head is None else (self.head, False)
        logits = paddle.matmul(states, weight, transpose_y=across)
        return functional.cross_entropy(logits.astype(WIDE), labels.unsqueeze(-1), reduction="none").sum()
