"""A decoder-only transformer with the architecture of ERNIE-4.5, small enough for a laptop; needs only paddle.

RMSNorm before attention and feed-forward, rotary positions, grouped-query attention; the first layer is dense, the
others have a mixture of experts (softmax router, best k of n, renormalised weights) and a shared expert.  Every expert
is computed for every token and weighted, often by zero: wasteful, but all shapes are static, so that accelerators
compile once, and every parameter has a gradient on every rank.
"""

# mypy: disable-error-code="misc"
# (mypy runs without paddle: nn.Layer is Any, which may not be a base class)
from __future__ import annotations

import math
from dataclasses import dataclass

import paddle
from paddle import nn
from paddle.nn import functional


@dataclass(frozen=True)
class TinyModelShape:
    """Sizes of the model; `heads` must be a multiple of `key_value_heads`."""

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
    """y = x W + (x A) B alpha / rank.  With LoRA W is frozen and B starts at zero, so that step 0 is the base model."""

    def __init__(self, inner: int, outer: int, shape: TinyModelShape, lora: bool) -> None:
        super().__init__()
        self.weight = make_parameter(self, [inner, outer], 1 / math.sqrt(inner))
        self.scale = shape.alpha / shape.rank if lora else 0.0
        if lora:
            self.weight.stop_gradient = True
            self.lora_a = make_parameter(self, [inner, shape.rank], 1 / math.sqrt(inner))
            self.lora_b = make_parameter(self, [shape.rank, outer], 0.0)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        base = paddle.matmul(x, self.weight)
        if not self.scale:
            return base
        return base + paddle.matmul(paddle.matmul(x, self.lora_a), self.lora_b) * self.scale


class Norm(nn.Layer):
    """RMSNorm, without mean and bias."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = make_parameter(self, [size], 0.0, 1.0)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return x * paddle.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Layer):
    """Causal attention; several query heads share a key/value head."""

    def __init__(self, shape: TinyModelShape, lora: bool) -> None:
        super().__init__()
        self.heads, self.groups, self.size = shape.heads, shape.key_value_heads, shape.hidden // shape.heads
        narrow = self.groups * self.size
        self.query = Projection(shape.hidden, shape.hidden, shape, lora)
        self.key = Projection(shape.hidden, narrow, shape, lora)
        self.value = Projection(shape.hidden, narrow, shape, lora)
        self.out = Projection(shape.hidden, shape.hidden, shape, lora)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        batch, length, hidden = x.shape
        query = rotate_pairs(self.query(x).reshape([batch, length, self.heads, self.size]))
        key = rotate_pairs(self.key(x).reshape([batch, length, self.groups, self.size]))
        value = self.value(x).reshape([batch, length, self.groups, self.size])
        query, key, value = (
            t.transpose([0, 2, 1, 3]) for t in (query, self._repeat_heads(key), self._repeat_heads(value))
        )
        scores = paddle.matmul(query, key, transpose_y=True) / math.sqrt(self.size)
        ahead = paddle.triu(paddle.full([length, length], -1e9), 1)
        mixed = paddle.matmul(functional.softmax(scores + ahead, axis=-1), value)
        return self.out(mixed.transpose([0, 2, 1, 3]).reshape([batch, length, hidden]))

    def _repeat_heads(self, x: paddle.Tensor) -> paddle.Tensor:
        """Repeat each key/value head for the query heads of its group."""
        batch, length = x.shape[0], x.shape[1]
        times = self.heads // self.groups
        wide = x.unsqueeze(3).expand([batch, length, self.groups, times, self.size])
        return wide.reshape([batch, length, self.heads, self.size])


class FeedForward(nn.Layer):
    """SwiGLU, used as dense layer, expert and shared expert."""

    def __init__(self, hidden: int, inner: int, shape: TinyModelShape, lora: bool) -> None:
        super().__init__()
        self.gate = Projection(hidden, inner, shape, lora)
        self.up = Projection(hidden, inner, shape, lora)
        self.down = Projection(inner, hidden, shape, lora)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Mixture(nn.Layer):
    """Mixture of experts with a shared expert; `balance` is the load-balancing loss of the last forward pass."""

    def __init__(self, shape: TinyModelShape, lora: bool) -> None:
        super().__init__()
        self.best, self.count = shape.best, shape.experts
        self.router = Projection(shape.hidden, shape.experts, shape, False)
        self.router.weight.stop_gradient = lora  # as in ERNIEKit: LoRA does not train the router
        self.experts = nn.LayerList(
            [FeedForward(shape.hidden, shape.expert, shape, lora) for _ in range(shape.experts)]
        )
        self.shared = FeedForward(shape.hidden, shape.shared, shape, lora)
        self.balance: paddle.Tensor | None = None

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        chance = functional.softmax(self.router(x), axis=-1)
        _, chosen = paddle.topk(chance, self.best, axis=-1)
        mask = make_factor(functional.one_hot(chosen, self.count).sum(-2))
        weight = chance * mask
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-9)
        self.balance = self.count * (chance.mean([0, 1]) * mask.mean([0, 1])).sum() / self.best
        y = self.shared(x)
        for number, expert in enumerate(self.experts):
            y = y + expert(x) * weight[:, :, number : number + 1]
        return y


class DecoderLayer(nn.Layer):
    """Attention, and a dense feed-forward (first layer) or a mixture of experts."""

    def __init__(self, shape: TinyModelShape, number: int, lora: bool) -> None:
        super().__init__()
        self.before_attention, self.attention = Norm(shape.hidden), Attention(shape, lora)
        self.before_mixture = Norm(shape.hidden)
        dense = FeedForward(shape.hidden, shape.dense, shape, lora)
        self.mixture = Mixture(shape, lora) if number else dense

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = x + self.attention(self.before_attention(x))
        return x + self.mixture(self.before_mixture(x))


class Decoder(nn.Layer):
    """The model.  With LoRA the embedding, head and norms are trained as well, because the base weights are random."""

    def __init__(self, shape: TinyModelShape, lora: bool) -> None:
        super().__init__()
        self.embedding = make_parameter(self, [shape.vocabulary, shape.hidden], 0.5)
        self.blocks = nn.LayerList([DecoderLayer(shape, number, lora) for number in range(shape.layers)])
        self.norm = Norm(shape.hidden)
        self.head = None if shape.tied else make_parameter(self, [shape.hidden, shape.vocabulary], 0.02)

    def forward(self, tokens: paddle.Tensor) -> paddle.Tensor:
        """Return logits [batch, length, vocabulary] for tokens [batch, length]."""
        x = functional.embedding(tokens, self.embedding)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return paddle.matmul(x, self.embedding, transpose_y=True) if self.head is None else paddle.matmul(x, self.head)

    def loss(self, tokens: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Return (next-token loss, mean balance loss of the routers)."""
        guess = self(tokens[:, :-1])
        said = functional.cross_entropy(guess.reshape([-1, guess.shape[-1]]), tokens[:, 1:].reshape([-1]))
        balances = [b.mixture.balance for b in self.blocks if isinstance(b.mixture, Mixture)]
        return said, paddle.add_n(balances) / len(balances)


def make_parameter(owner: nn.Layer, size: list[int], spread: float, middle: float = 0.0) -> paddle.Tensor:
    """Return a parameter initialised with a normal distribution, or with the constant `middle` if `spread` is 0."""
    start = nn.initializer.Normal(middle, spread) if spread else nn.initializer.Constant(middle)
    return owner.create_parameter(size, default_initializer=start)


def rotate_pairs(x: paddle.Tensor) -> paddle.Tensor:
    """Apply rotary positions to [batch, length, heads, size]: rotate each pair (i, i + half)."""
    length, half = x.shape[1], x.shape[3] // 2
    speed = paddle.exp(paddle.arange(half, dtype="float32") * (-math.log(10000.0) / half))
    angle = (paddle.arange(length, dtype="float32").unsqueeze(1) * speed).reshape([1, length, 1, half])
    cosine, sine = make_factor(paddle.cos(angle)), make_factor(paddle.sin(angle))
    left, right = x[:, :, :, :half], x[:, :, :, half:]
    return paddle.concat([left * cosine - right * sine, right * cosine + left * sine], axis=-1)


def make_factor(constant: paddle.Tensor) -> paddle.Tensor:
    """Mark a constant factor as differentiable; its gradient is not used.

    Without multiply_grad in a plugin, paddle 3.1 falls back to the CPU kernel, which fails for constants (tested).
    """
    constant.stop_gradient = False
    return constant
