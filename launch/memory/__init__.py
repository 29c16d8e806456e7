"""Estimate device memory term by term, with small pure functions that state their formulas.

Symbols as in the papers: s sequence, b micro batch, h hidden, a heads, k key/value heads, d head size, f MLP width,
L layers, V vocabulary, T tensor, P pipeline, C context, E expert parallel, D shards of an optimizer group,
N parameters.  Results are bytes of one card; GiB is 2^30.
"""

GIB = float(1 << 30)
