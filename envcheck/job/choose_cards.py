"""Choose the cards of a machine for a job: the requested ones, those of the user's own list, or free ones.  Pure.

Cards are positions in the list of the vendor's tool; users see and write the tool's own numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from envcheck.checks import run_checks
from envcheck.core.derived.device_processes import find_processes, format_processes
from envcheck.core.derived.link_groups import choose_linked
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts, MachineRequirements, VendorFacts
from envcheck.core.findings import device_label, format_ranges
from envcheck.core.messages import NOTHING, Message, _, join, ngettext
from envcheck.core.model import Device, Status
from envcheck.core.units import format_mib
from envcheck.core.vendor import Vendor, find_die_id
from envcheck.job.card_ids import parse_card_numbers
from envcheck.job.requirements.device_memory import free_mib, has_room
from envcheck.vendors import VENDORS

AUTO = "auto"
MOST = 1024  # cards per node
# The checks that find a defect of single cards.
OF_ONE_CARD = ("devices.health", "devices.ecc", "devices.temperature")
_NUMBERS = re.compile(r"\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?)*")
_NAME = re.compile(r"[A-Za-z]{2,8}-[0-9A-Za-z-]{1,80}")  # a UUID or its beginning


@dataclass(frozen=True)
class CardChoice:
    """`places` are positions in the tool's list, `numbers` the tool's numbers, `nodes` those of the device nodes.

    `reason` is why these; `is_explicit`: the user asked for them, so that a new container gets no others.
    """

    places: tuple[int, ...]
    numbers: tuple[int, ...]
    nodes: tuple[int, ...]
    reason: Message = NOTHING
    is_explicit: bool = False


@dataclass(frozen=True)
class CardQuery:
    """What to choose: `requested` is the value of --devices; `count` cards are needed; `wanted` tells what a card must
    have free, and is derived only if it matters."""

    requested: str | None
    count: int
    wanted: Callable[[], MachineRequirements]


def count_requested(requested: str | None) -> int | None:
    """Return how many cards --devices names; None for auto and without the option.  UsageError for an invalid value."""
    if requested is None or requested.strip().lower() == AUTO:
        return None
    return len(_split_words(requested))


def choose_cards(query: CardQuery, facts: Facts, device: str) -> CardChoice | None:
    """Return the cards of the vendor `device`; None to use the first ones, because nothing tells otherwise.

    Raises UsageError for cards that the machine does not have, and for a card that is named twice.
    """
    v = next((each for each in facts.vendors if each.name == device), None)
    auto = query.requested is not None and query.requested.strip().lower() == AUTO
    if query.requested is not None and not auto:
        return _choose_requested(query.requested, v, VENDORS[device])
    if v is None or not v.devices:
        return None
    name = v.vendor.visible_env
    listed = None if auto else (facts.environment or {}).get(name)
    candidates = tuple(range(len(v.devices))) if listed is None else find_listed(listed, v)
    if candidates is None or len(candidates) < query.count:
        return None  # gate.visible and gate.devices report it
    said = NOTHING if listed is None else _("selected by {variable}={value}", variable=name, value=(listed or "")[:200])
    return _choose_usable(query, facts, v, candidates, auto, said)


def find_listed(text: str, v: VendorFacts) -> tuple[int, ...] | None:
    """Return the positions of a list of visible devices (numbers, UUIDs or their beginnings); None if it is invalid."""
    found = []
    for word in text.split(","):
        places = (
            [int(word)]
            if word.isascii() and word.isdecimal() and int(word) < len(v.devices)
            else [n for n, d in enumerate(v.devices) if _NAME.fullmatch(word) and (d.uuid or "").startswith(word)]
        )
        if len(places) != 1:
            return None
        found += places
    return tuple(found) if len(set(found)) == len(found) else None


def number_cards(devices: Sequence[Device]) -> tuple[int, ...]:
    """Return the tool's number of each card: its index or NPU id; physical ids where several dies share an NPU."""
    labels = [device_label(device) for device in devices]
    if all(label.isdecimal() for label in labels) and len(set(labels)) == len(labels):
        return tuple(map(int, labels))
    physical = [device.phy_id for device in devices]
    if None not in physical and len(set(physical)) == len(physical):
        return tuple(number for number in physical if number is not None)
    return tuple(range(len(devices)))


def build_choice(
    places: Sequence[int], v: VendorFacts, reason: Message = NOTHING, is_explicit: bool = False
) -> CardChoice:
    """Return the choice of these positions."""
    numbers, nodes = number_cards(v.devices), _list_node_numbers(v)
    return CardChoice(
        tuple(places), tuple(numbers[n] for n in places), tuple(nodes[n] for n in places), reason, is_explicit
    )


def describe_choice(choice: CardChoice) -> Message:
    """Return the cards by number, and why these: "device 4: selected with --devices"."""
    return ngettext(
        "device {numbers}: {reason}",
        "devices {numbers}: {reason}",
        len(choice.numbers),
        numbers=format_ranges(choice.numbers),
        reason=choice.reason,
    )


def narrow_to_cards(facts: Facts, v: VendorFacts, places: Sequence[int]) -> Facts:
    """Return the facts with these cards only, for checks that look at each card by itself."""
    devices = tuple(v.devices[n] for n in places if n < len(v.devices))
    processes = None if v.processes is None else tuple(find_processes(v, devices))
    ids = {number for d in devices for number in (d.index, d.npu, find_die_id(d))}
    answers = {number: found for number, found in v.per_device.items() if number in ids}
    left = replace(v, devices=devices, processes=processes, per_device=answers)
    return replace(facts, vendors=tuple(left if each is v else each for each in facts.vendors))


def _list_node_numbers(v: VendorFacts) -> tuple[int, ...]:
    """Return the number of each card's device node: the die's id, else in the order of the nodes."""
    dies = [find_die_id(device) for device in v.devices]
    there = sorted(parse_card_numbers(v.nodes or (), v.vendor))
    if None not in dies and len(set(dies)) == len(dies):
        return tuple(number for number in dies if number is not None)
    return tuple(there) if len(there) == len(v.devices) else tuple(range(len(v.devices)))


def _split_words(requested: str) -> list[str]:
    """Return the cards that --devices names, with ranges written out."""
    words = []
    for word in requested.replace(" ", "").split(","):
        first, dash, last = word.partition("-")
        if first.isdecimal() and (not dash or last.isdecimal()) and _NUMBERS.fullmatch(word):
            if int(last or first) < int(first):
                raise UsageError(
                    _("--devices {value}: {first} is greater than {last}", value=word, first=first, last=last),
                    _("for example --devices {last}-{first}", first=first, last=last),
                )
            words += [str(number) for number in range(int(first), int(last or first) + 1)[: MOST + 1]]
        elif _NAME.fullmatch(word):
            words.append(word)
        else:
            raise UsageError(
                _("--devices {value}: expected numbers of devices, UUIDs, or 'auto'", value=requested[:80]),
                _("for example --devices 4,5 or --devices 4-7"),
            )
    if len(words) > MOST:
        raise UsageError(_("--devices names more than {most} devices", most=MOST), _("name the devices of one node"))
    return words


def _choose_requested(requested: str, v: VendorFacts | None, vendor: Vendor) -> CardChoice:
    words, reason = _split_words(requested), _("selected with --devices")
    if not vendor.devices:
        raise UsageError(_("--devices: the job runs on the CPU"), _("remove --devices"))
    if v is None or not v.devices:  # on a machine without such cards the numbers are taken as they are
        if not all(word.isdecimal() for word in words):
            raise UsageError(_("--devices: no device of this machine has a UUID"), _("use device numbers"))
        _refuse_twice(words)
        numbers = tuple(map(int, words))
        return CardChoice(numbers, numbers, numbers, reason, is_explicit=True)
    numbers, places = number_cards(v.devices), []
    for word in words:
        found = (
            [n for n, number in enumerate(numbers) if number == int(word)]
            if word.isdecimal()
            else [n for n, device in enumerate(v.devices) if (device.uuid or "").startswith(word)]
        )
        if len(found) != 1:
            raise _make_unknown_error(word, numbers, v, len(found))
        places += found
    _refuse_twice([str(numbers[n]) for n in places])
    return build_choice(sorted(places), v, reason, is_explicit=True)


def _refuse_twice(words: Sequence[str]) -> None:
    if twice := next((word for word in words if words.count(word) > 1), ""):
        raise UsageError(_("--devices names device {number} twice", number=twice), _("name each device once"))


def _make_unknown_error(word: str, numbers: Sequence[int], v: VendorFacts, count: int) -> UsageError:
    if count > 1:
        return UsageError(_("--devices {word}: several devices match", word=word), _("use more of the UUID"))
    return UsageError(
        _("--devices: {tool} lists no device {word}", tool=v.vendor.tool, word=word),
        _("choose among {numbers}", numbers=format_ranges(numbers)),
    )


def _choose_usable(
    query: CardQuery, facts: Facts, v: VendorFacts, candidates: tuple[int, ...], auto: bool, said: Message
) -> CardChoice | None:
    """Return the first candidates if all of them are usable, else usable ones that are linked closely."""
    first = candidates[: query.count]
    if said:  # of the user's own list, cards that are linked to each other
        first = choose_linked(v, candidates, query.count)

    def find_fault(place: int) -> Message:
        return _find_defect(facts, v, place) or _find_user(query, facts, v, place, auto)

    if not auto and not any(map(find_fault, first)):
        return build_choice(sorted(first), v, said, is_explicit=True) if said else None
    known = {place: find_fault(place) for place in candidates}
    usable = [n for n in candidates if not known[n]]
    if len(usable) < query.count:
        if not auto or not usable:
            return (
                build_choice(first, v, said, is_explicit=True) if said else None
            )  # the gates report what is wrong with these
        chosen = (*usable, *(n for n in candidates if known[n]))[: query.count]
    else:
        chosen = choose_linked(v, usable, query.count)
    avoided = [known[n] for n in candidates if known[n] and n not in chosen]
    reasons = [said, _("free and healthy") if auto else NOTHING, *_describe_avoided(avoided)]
    return build_choice(sorted(chosen), v, join("; ", filter(None, reasons)), is_explicit=auto or bool(said))


def _describe_avoided(avoided: Sequence[Message]) -> Iterator[Message]:
    if avoided:
        text = join("; ", avoided[:4])
        yield ngettext("avoids {count} device: {text}", "avoids {count} devices: {text}", len(avoided), text=text)


def _find_defect(facts: Facts, v: VendorFacts, place: int) -> Message:
    """Return what is wrong with a card, "" if nothing is."""
    alone = narrow_to_cards(replace(facts, wanted=None), v, (place,))
    bad = next((found for found in run_checks(alone, OF_ONE_CARD) if found.status is Status.FAIL), None)
    return bad.seen if bad else NOTHING


def _find_user(query: CardQuery, facts: Facts, v: VendorFacts, place: int, auto: bool) -> Message:
    """Return who holds a card, "" if it is free; if the user did not ask for free cards, room for the job suffices."""
    device = v.devices[place]
    held = (device.memory_used_mib or 0) > v.vendor.idle_memory_mib
    users = find_processes(v, [device])
    if not held and not (auto and users):
        return NOTHING
    if not auto and has_room(replace(facts, wanted=query.wanted()), v, place, device):
        return NOTHING
    label = device_label(device)
    if users:
        return _("device {label} is in use by {users}", label=label, users=format_processes(users))
    return _("device {label} has {free} of memory free", label=label, free=format_mib(free_mib(device)))
