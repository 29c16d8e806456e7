"""A decoder-only transformer of ERNIE-4.5's shape, small enough for a laptop; needs paddle alone.

RMSNorm before each half of a layer, rotary positions, grouped-query attention, a dense first layer, and after it a
mixture of experts (softmax router, the best k of n, weights renormalised) beside a shared expert that sees every token.
Every expert is computed for every token and weighted, often by zero: wasteful, but all shapes are static, so that no
accelerator has to compile twice, and every parameter has a gradient on every rank.
"""

# mypy: disable-error-code="misc"
# (paddle is not there when we are checked, so that nn.Layer is Any, and Any may not be a base class)
from __future__ import annotations

import math
from dataclasses import dataclass

import paddle
from paddle import nn
from paddle.nn import functional


@dataclass(frozen=True)
class Shape:
    """The sizes; `heads` must be a multiple of `key_value_heads`."""

    vocabulary: int = 256
    hidden: int = 96
    layers: int = 3
    heads: int = 6
    key_value_heads: int = 2
    dense: int = 192
    expert: int = 64
    shared: int = 96
    experts: int = 4
    best: int = 2
    rank: int = 8
    alpha: float = 16.0
    tied: bool = False


class Projection(nn.Layer):
    """y = x W + (x A) B alpha / rank: W stands still under LoRA, and B begins at zero, so that step 0 is the base."""

    def __init__(self, inner: int, outer: int, shape: Shape, lora: bool) -> None:
        super().__init__()
        self.weight = parameter(self, [inner, outer], 1 / math.sqrt(inner))
        self.scale = shape.alpha / shape.rank if lora else 0.0
        if lora:
            self.weight.stop_gradient = True
            self.lora_a = parameter(self, [inner, shape.rank], 1 / math.sqrt(inner))
            self.lora_b = parameter(self, [shape.rank, outer], 0.0)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        base = paddle.matmul(x, self.weight)
        if not self.scale:
            return base
        return base + paddle.matmul(paddle.matmul(x, self.lora_a), self.lora_b) * self.scale


class Norm(nn.Layer):
    """Root mean square, without a mean and without a bias."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = parameter(self, [size], 0.0, 1.0)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return x * paddle.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Layer):
    """Causal; several query heads share one key and value head."""

    def __init__(self, shape: Shape, lora: bool) -> None:
        super().__init__()
        self.heads, self.groups, self.size = shape.heads, shape.key_value_heads, shape.hidden // shape.heads
        narrow = self.groups * self.size
        self.query = Projection(shape.hidden, shape.hidden, shape, lora)
        self.key = Projection(shape.hidden, narrow, shape, lora)
        self.value = Projection(shape.hidden, narrow, shape, lora)
        self.out = Projection(shape.hidden, shape.hidden, shape, lora)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        batch, length, hidden = x.shape
        query = rotate(self.query(x).reshape([batch, length, self.heads, self.size]))
        key = rotate(self.key(x).reshape([batch, length, self.groups, self.size]))
        value = self.value(x).reshape([batch, length, self.groups, self.size])
        query, key, value = (t.transpose([0, 2, 1, 3]) for t in (query, self._share(key), self._share(value)))
        scores = paddle.matmul(query, key, transpose_y=True) / math.sqrt(self.size)
        ahead = paddle.triu(paddle.full([length, length], -1e9), 1)
        mixed = paddle.matmul(functional.softmax(scores + ahead, axis=-1), value)
        return self.out(mixed.transpose([0, 2, 1, 3]).reshape([batch, length, hidden]))

    def _share(self, x: paddle.Tensor) -> paddle.Tensor:
        """Each key/value head once for every query head of its group."""
        batch, length = x.shape[0], x.shape[1]
        times = self.heads // self.groups
        wide = x.unsqueeze(3).expand([batch, length, self.groups, times, self.size])
        return wide.reshape([batch, length, self.heads, self.size])


class FeedForward(nn.Layer):
    """SwiGLU: a dense layer, one expert, or the shared one."""

    def __init__(self, hidden: int, inner: int, shape: Shape, lora: bool) -> None:
        super().__init__()
        self.gate = Projection(hidden, inner, shape, lora)
        self.up = Projection(hidden, inner, shape, lora)
        self.down = Projection(inner, hidden, shape, lora)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Mixture(nn.Layer):
    """The best k experts of a router, and a shared expert.  `balance` is the last forward's load-balancing loss."""

    def __init__(self, shape: Shape, lora: bool) -> None:
        super().__init__()
        self.best, self.count = shape.best, shape.experts
        self.router = Projection(shape.hidden, shape.experts, shape, False)
        self.router.weight.stop_gradient = lora  # as ERNIEKit does: LoRA leaves the router alone
        self.experts = nn.LayerList(
            [FeedForward(shape.hidden, shape.expert, shape, lora) for _ in range(shape.experts)]
        )
        self.shared = FeedForward(shape.hidden, shape.shared, shape, lora)
        self.balance: paddle.Tensor | None = None

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        chance = functional.softmax(self.router(x), axis=-1)
        _, chosen = paddle.topk(chance, self.best, axis=-1)
        mask = factor(functional.one_hot(chosen, self.count).sum(-2))
        weight = chance * mask
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-9)
        self.balance = self.count * (chance.mean([0, 1]) * mask.mean([0, 1])).sum() / self.best
        y = self.shared(x)
        for number, expert in enumerate(self.experts):
            y = y + expert(x) * weight[:, :, number : number + 1]
        return y


class Block(nn.Layer):
    def __init__(self, shape: Shape, number: int, lora: bool) -> None:
        super().__init__()
        self.before_attention, self.attention = Norm(shape.hidden), Attention(shape, lora)
        self.before_mixture = Norm(shape.hidden)
        dense = FeedForward(shape.hidden, shape.dense, shape, lora)
        self.mixture = Mixture(shape, lora) if number else dense

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = x + self.attention(self.before_attention(x))
        return x + self.mixture(self.before_mixture(x))


class Decoder(nn.Layer):
    """Tokens → loss.  Under LoRA the embedding, the head and the norms learn too: the base here is random, and no
    adapter could make sense of a random embedding."""

    def __init__(self, shape: Shape, lora: bool) -> None:
        super().__init__()
        self.embedding = parameter(self, [shape.vocabulary, shape.hidden], 0.5)
        self.blocks = nn.LayerList([Block(shape, number, lora) for number in range(shape.layers)])
        self.norm = Norm(shape.hidden)
        self.head = None if shape.tied else parameter(self, [shape.hidden, shape.vocabulary], 0.02)

    def forward(self, tokens: paddle.Tensor) -> paddle.Tensor:
        """[batch, length] → [batch, length, vocabulary]"""
        x = functional.embedding(tokens, self.embedding)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return paddle.matmul(x, self.embedding, transpose_y=True) if self.head is None else paddle.matmul(x, self.head)

    def loss(self, tokens: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        """The loss of guessing each next token, and the routers' balance loss."""
        guess = self(tokens[:, :-1])
        said = functional.cross_entropy(guess.reshape([-1, guess.shape[-1]]), tokens[:, 1:].reshape([-1]))
        balances = [b.mixture.balance for b in self.blocks if isinstance(b.mixture, Mixture)]
        return said, paddle.add_n(balances) / len(balances)


def parameter(owner: nn.Layer, size: list[int], spread: float, middle: float = 0.0) -> paddle.Tensor:
    start = nn.initializer.Normal(middle, spread) if spread else nn.initializer.Constant(middle)
    return owner.create_parameter(size, default_initializer=start)


def rotate(x: paddle.Tensor) -> paddle.Tensor:
    """Turn each pair (i, i + half) of [batch, length, heads, size] by its position."""
    length, half = x.shape[1], x.shape[3] // 2
    speed = paddle.exp(paddle.arange(half, dtype="float32") * (-math.log(10000.0) / half))
    angle = (paddle.arange(length, dtype="float32").unsqueeze(1) * speed).reshape([1, length, 1, half])
    cosine, sine = factor(paddle.cos(angle)), factor(paddle.sin(angle))
    left, right = x[:, :, :, :half], x[:, :, :, half:]
    return paddle.concat([left * cosine - right * sine, right * cosine + left * sine], axis=-1)


def factor(constant: paddle.Tensor) -> paddle.Tensor:
    """Something to multiply with.  Its gradient is asked for and not used: where a plugin has no multiply_grad, paddle
    3.1 takes the CPU's and stumbles over a gradient that nobody wants (tried)."""
    constant.stop_gradient = False
    return constant
