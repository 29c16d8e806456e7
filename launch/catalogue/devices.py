"""Accelerators for the planner: memory in use before the first tensor of a job, and bandwidths."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from envcheck.core import suggestions
from envcheck.core.errors import UsageError
from envcheck.core.messages import NOTHING, Message, _, fill, join, mark
from envcheck.core.toml_file import Given, load_own_part, load_own_table
from envcheck.vendors import VENDORS, find_data_files
from launch.catalogue.links import MachineLinks

OTHERS = Path(__file__).with_name("devices.toml")
# Letters: names without a digit that are as short or shorter are kinds of cards (gpu, gpus, npu, dcu, mlu), not models.
LONGEST_KIND = 4
_SOLD_GIB = (16, 24, 32, 48, 80, 96, 141, 180, 186, 192, 288)  # sizes that cards are sold with; others were measured
MEMORY_TOLERANCE = 0.07  # between the memory that a card is sold with and what its tool prints, without ECC's part
TYPICAL_LINKS = mark(
    "links: {link_gbs:g} GB/s per card within a machine of {cards_per_node}, "
    "{net_gbs:g} GB/s between machines (typical for {name})"
)
ESTIMATED_LINKS = mark(
    "links: {link_gbs:g} GB/s per card within a machine of {cards_per_node}, "
    "{net_gbs:g} GB/s between machines (estimated from comparable cards; no figures are published for {name})"
)


@dataclass(frozen=True)
class DeviceModel:
    """A kind of card (for Iluvatar, a die).

    Memory: `idle_gib` in use on an idle card, `context_gib` for the first kernel, `collective_gib` for the first
    collective, `communicator_gib` for each further communicator, `workspace_gib` of matrix libraries beyond the usual.
    `tflops`: dense 16-bit peak.  Bandwidths in 10^9 bytes per second, one way: `link_gbs` from one card to the others
    of its node, `net_gbs` its share of the network, `pcie_gbs` its PCIe port in practice.  `links`: those of a real
    machine, None if unknown.  `parallel_framework`: the Megatron kind of framework for such cards.  `estimates`: the
    fields whose values are estimates after comparable cards, because none are published.  `node_sizes`: cards of the
    nodes that are sold.  `figures_of`: a card for which another one's figures are used, and which one.
    """

    name: Given[str]
    vendor: str
    memory_gib: float
    idle_gib: float
    context_gib: float
    collective_gib: float
    communicator_gib: float
    tflops: float
    link_gbs: float
    net_gbs: float
    cards_per_node: int
    four_bit: bool
    names: tuple[str, ...]
    source: str
    workspace_gib: float = 0.0
    pcie_gbs: float = 24.0
    parallel_framework: str = "megatron"
    estimates: tuple[str, ...] = ()
    node_sizes: tuple[int, ...] = ()
    figures_of: str = ""
    links: Given[MachineLinks | None] = None

    @property
    def largest_node(self) -> int:
        """The most cards in a node that is sold."""
        return max(self.cards_per_node, *self.node_sizes, 1)

    def correct_memory(self, given: float) -> float:
        """Return the memory in GiB that the card's tool prints, if `given` is the size that the card is sold with."""
        is_sold = given in _SOLD_GIB and not self.figures_of and 0 < given - self.memory_gib <= given * MEMORY_TOLERANCE
        return self.memory_gib if is_sold else given


def assumed_links(device: DeviceModel, cards: int) -> Iterator[Message]:
    """Yield the assumed bandwidths of links and network, if the topology does not tell them."""
    if device.links is None and cards > 1:
        yield fill(
            ESTIMATED_LINKS if "link_gbs" in device.estimates else TYPICAL_LINKS,
            link_gbs=device.link_gbs,
            cards_per_node=device.cards_per_node,
            net_gbs=device.net_gbs,
            name=device.name,
        )
    elif device.links and cards > device.links.cards:
        yield _("links: more machines like this one, {net_gbs:g} GB/s between machines", net_gbs=device.net_gbs)


def assumed_card(device: DeviceModel) -> Message:
    """Return a note for a card that is not in the tables, or whose memory figures are estimates, else ""."""
    if device.figures_of:
        return _("card: not in the device table; planned with the figures of {name}", name=fill(device.figures_of))
    if not {"context_gib", "collective_gib", "communicator_gib"} & set(device.estimates):
        return NOTHING
    return _(
        "card: {context_gib:g} GiB for the context, {collective_gib:g} GiB for collectives and "
        "{communicator_gib:g} GiB per further communicator (estimated from comparable cards; "
        "no figures are published for {name})",
        context_gib=device.context_gib,
        collective_gib=device.collective_gib,
        communicator_gib=device.communicator_gib,
        name=device.name,
    )


@cache
def load_devices() -> tuple[DeviceModel, ...]:
    """Return the vendors' devices.toml, then the cards of other vendors; the last is used for unknown cards."""
    own = [card for vendor, path in find_data_files("devices.toml") for card in _load_cards(path, vendor.name)]
    return (*own, *_load_cards(OTHERS))


def _load_cards(path: Path, vendor: str = "") -> Iterator[DeviceModel]:
    """Yield the cards of a file; an entry takes the keys that it lacks from the one that it is `like`."""
    table = load_own_table(path)

    def complete(row: Mapping[str, Any]) -> dict[str, Any]:
        base = complete(table[row["like"]]) if "like" in row else {"vendor": vendor} if vendor else {}
        return {**base, **{key: value for key, value in row.items() if key != "like"}}

    for name, row in table.items():
        yield load_own_part(DeviceModel, path, complete(row), name, name=name)


def find_device(text: str, vendor: str = "") -> DeviceModel:
    """Return the card whose name in `text` is the longest (910B3, BI-V150, A100), else the last of the list.

    A card of which only the vendor is known, or nothing, has the figures of another one and its own name: "Titan V".
    `vendor`: only its cards, if it has any.
    """
    own = [card for card in load_devices() if card.vendor == vendor]
    found = [(card, word) for card in own or load_devices() for word in card.names if _contains_name(text, word)]
    if not found:
        like = own[0] if own else load_devices()[-1]
        return _name_unlisted(replace(like, name=vendor, figures_of=like.name) if own else like, text)
    card, word = max(found, key=lambda one: (_has_digit(one[1]), len(one[1])))  # the first of the best
    return _name_unlisted(card, text) if card.figures_of or word in _list_vendor_words() else card


def _has_digit(word: str) -> bool:
    """Whether it names one model, and not a vendor or a series."""
    return re.search(r"\d", word) is not None


def _contains_name(text: str, word: str) -> bool:
    """Whether `word` is a name in `text`: not a part of a longer number or word, as l4 of l40."""
    return re.search(rf"(?<!\d){re.escape(word)}(?![0-9a-z])", text.lower()) is not None


@cache
def _list_vendor_words() -> frozenset[str]:
    return frozenset(word for vendor in VENDORS.values() for word in (vendor.name, *vendor.aliases)) - {
        word for card in load_devices() for word in card.names if _has_digit(word)
    }


def _strip_vendor(text: str) -> str:
    """Return the name without vendors and memory sizes, with hyphens: "nvidia Tesla P40-24G" is tesla-p40."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return "-".join(w for w in words if w not in _list_vendor_words() and not re.fullmatch(r"\d+gb?|card|unknown", w))


def _name_unlisted(card: DeviceModel, text: str) -> DeviceModel:
    """Return `card` under the name in `text`, if there is one."""
    own = _strip_vendor(text)[:40]
    is_name = _has_digit(own) or len(own) > LONGEST_KIND
    return replace(card, name=own, figures_of=card.figures_of or card.name) if is_name else card


_SOCKETS = ("sxm[2-5]?", "pcie", "oam")
_SOCKET_AT_END = re.compile(f"(?:{'|'.join(_SOCKETS)})$")
_SOLD_MEMORY = re.compile(r"(\d{1,3})g(?:i?b)?")


def find_named_device(text: str) -> DeviceModel:
    """Return the card with this name, as typed by a user: h20, "RTX 4090", A100-80G; UsageError for any other."""
    word = re.sub(r"[\s_]+", "-", text.strip().lower())
    readings = [*_read_device_name(word)]
    for card in load_devices():
        if not card.figures_of and (word in (card.name, *card.names) or any(_is_named(card, *one) for one in readings)):
            return card
    known = list_device_words()
    more = _("choose a vendor ({vendors}) or a card: {cards}", vendors=join(", ", VENDORS), cards=join(", ", known))
    raise UsageError(_("unknown device {text!r}", text=text[:80]), suggestions.suggest(word, known, more=more))


def _is_named(card: DeviceModel, bare: str, size: int) -> bool:
    """Whether this is a bare name of the card, and the size (GiB, 0 if not given) that of its memory."""
    is_size = not size or abs(card.memory_gib - size) <= size * MEMORY_TOLERANCE
    return is_size and bare in (_split_device_name(name)[0] for name in card.names)


def _read_device_name(name: str) -> Iterator[tuple[str, int]]:
    """Yield what a user may mean: a bare name and the GiB in it; a number at the end may be GiB as well (h800-80)."""
    bare, size = _split_device_name(name)
    if bare:
        yield bare, size
    words = [word for word in name.split("-") if not _SOCKET_AT_END.fullmatch(word)]
    before, number = "-".join(words[:-1]), words[-1] if words else ""
    if not size and re.fullmatch(r"\d{1,3}", number) and (bare := _split_device_name(before)[0]):
        yield bare, int(number)


def _split_device_name(name: str) -> tuple[str, int]:
    """Return the name without separators, makers, series and sockets, and the GiB in it, 0 without."""
    words = re.findall("[a-z0-9]+", name)
    sizes = [word for word in words if _SOLD_MEMORY.fullmatch(word)]
    memory = _SOLD_MEMORY.fullmatch(sizes[0]) if len(sizes) == 1 else None
    bare = (
        _SOCKET_AT_END.sub("", _match_words_around().sub("", word, count=1))
        for word in words
        if not (memory and word == memory[0])
    )
    return "".join(bare), int(memory[1]) if memory else 0


@cache
def _match_words_around() -> re.Pattern[str]:
    """Match what is printed before a card's name, also without a space: makers, series, sockets."""
    series = (word for card in load_devices() for word in card.names if not _has_digit(word))
    return re.compile(f"(?:{'|'.join([*map(re.escape, {*series, *_list_vendor_words()}), *_SOCKETS])})*")


def find_option_name(card: DeviceModel) -> str:
    """Return what --device takes for this card: its name, or the vendor of a card that the table lacks."""
    is_listed = any(one.name == card.name and not one.figures_of for one in load_devices())
    return _choose_word(card) if is_listed else card.vendor


def _choose_word(card: DeviceModel) -> str:
    return next((word for word in card.names if _has_digit(word)), card.name)


def list_device_words() -> list[str]:
    """Return the shortest name of each card in the table, as a user types it."""
    cards = (card for card in load_devices() if not card.figures_of and card.vendor != "cpu")
    return [_choose_word(card) for card in cards]


def find_default_device(vendor: str) -> DeviceModel:
    """Return the default card of a vendor, its first; UsageError if it has none."""
    found = next((d for d in load_devices() if d.vendor == vendor), None)
    if found is None:
        known = join(", ", dict.fromkeys(d.vendor for d in load_devices()[:-1]))
        raise UsageError(
            _("--device {vendor}: not in the device table", vendor=vendor), _("choose one of {legal}", legal=known)
        )
    return found
