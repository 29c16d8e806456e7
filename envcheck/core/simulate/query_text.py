"""The text of `-q` of nvidia-smi and similar tools: "Key : value" lines in sections, for all devices or one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envcheck.core.simulate.reply import ProgramReply

Pairs = Sequence[tuple[str, "str | Pairs"]]  # a key and its value, or a section and its pairs
Section = tuple[str, Pairs]  # the type that `-d` selects, "" for pairs without one; and the pairs


@dataclass(frozen=True)
class QueryText:
    """`devices` are the heads of the blocks, such as a bus id, with the sections; `width` is that of the keys."""

    title: str
    head: Pairs
    devices: Sequence[tuple[str, Sequence[Section]]]
    width: int = 42

    def render(self, types: Iterable[str] = (), only: int | None = None) -> ProgramReply:
        """Return the answer with these types of sections (none: with all), of one device or of all."""
        wanted = set(types)
        lines = [f"=============={self.title}==============", "", *_render_pairs(self.head, 0, self.width)]
        for place, (name, sections) in enumerate(self.devices):
            if only in (None, place):
                shown = [pair for kind, pairs in sections if not wanted or kind in wanted for pair in pairs]
                lines += [name, *_render_pairs(shown, 4, self.width), ""]
        return ProgramReply("\n".join(lines) + "\n")


def make_query_replies(text: QueryText, *selections: str) -> dict[str, ProgramReply]:
    """Return the replies to -q, also with -i, and with -d and these selections, such as "ECC,POWER"."""
    places = [("", None), *((f" -i {place}", place) for place in range(len(text.devices)))]
    plain = {f"-q{suffix}": text.render(only=only) for suffix, only in places}
    chosen = {
        f"-q -d {types}{suffix}": text.render(types.split(","), only) for types in selections for suffix, only in places
    }
    return {**plain, **chosen}


def _render_pairs(pairs: Pairs, depth: int, width: int) -> list[str]:
    lines: list[str] = []
    for key, value in pairs:
        if not key:
            lines.append("")
        elif isinstance(value, str):
            lines.append(f"{' ' * depth}{key:<{width - depth}}: {value}")
        else:
            lines += [" " * depth + key, *_render_pairs(value, depth + 4, width)]
    return lines
