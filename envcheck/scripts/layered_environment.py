"""The environment of a command as layers over that of an earlier one: a script of thousands of exports stays small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envcheck.core.lint.script_model import ShellWord

DEEPEST = 64  # layers; deeper ones are merged into one, so that a look-up takes bounded time


class LayeredEnvironment(Mapping[str, ShellWord]):
    """A read-only mapping: `own` overrides `base`; None in `own` hides a name of `base`."""

    __slots__ = ("_base", "_depth", "_own")
    _own: Mapping[str, ShellWord | None]
    _base: LayeredEnvironment | None
    _depth: int

    def __init__(self, own: Mapping[str, ShellWord | None], base: LayeredEnvironment | None = None) -> None:
        if base is not None and base._depth >= DEEPEST:
            own, base = {**base._merge(), **own}, None
        self._own, self._base = own, base
        self._depth = 1 if base is None else base._depth + 1

    def __getitem__(self, name: str) -> ShellWord:
        layer: LayeredEnvironment | None = self
        while layer is not None:
            if name in layer._own:
                found = layer._own[name]
                if found is None:
                    break
                return found
            layer = layer._base
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, word in self._merge().items() if word is not None])

    def __len__(self) -> int:
        return sum(word is not None for word in self._merge().values())

    def _merge(self) -> dict[str, ShellWord | None]:
        layers = []
        layer: LayeredEnvironment | None = self
        while layer is not None:
            layers.append(layer._own)
            layer = layer._base
        return {name: word for own in reversed(layers) for name, word in own.items()}
