"""Lint rules for training on XPUs: pipeline parallelism and linked cards."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.derived.link_groups import find_unlinked_pair
from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import locate_option, parse_integer
from envcheck.core.lint.remark_builders import TextSpan, fail, warn_or_fail
from envcheck.core.lint.script_model import Remark
from envcheck.core.messages import _
from envcheck.vendors.kunlunxin import VENDOR
from envcheck.vendors.kunlunxin.lint_environment import VISIBLE, list_settings

GROUP = 4  # P800 OAM: XPULink connects the cards 0 to 3 fully, and 4 to 7
NO_BATCH = "disable_batch_p2p_comm"


def find_batched_sends(context: LintContext) -> Iterator[Remark]:
    """Yield a failure for pipeline parallelism without the option that BKCL needs."""
    for job in context.jobs if context.device == VENDOR.name else ():
        degree = job.find_given_option("pipeline_parallel_degree", "pipeline_model_parallel_size")
        config = job.find_given_option("pipeline_parallel_config")
        if degree is None or (parse_integer(degree.value) or 1) < 2 or job.open:
            continue
        words = " ".join(word.text for word in config.values) if config else ""
        if NO_BATCH not in words and not any(word.known_text is None for word in (config.values if config else ())):
            seen = _("pipeline parallelism without {option}: BKCL refuses to send to one peer twice", option=NO_BATCH)
            do = _("Add {option} to pipeline_parallel_config.", option=NO_BATCH)
            yield fail(locate_option(config or degree), seen, do)


def find_unlinked_cards(context: LintContext) -> Iterator[Remark]:
    """Yield remarks on two to four cards of both halves of a machine; of four, one half is required."""
    for cards, place in _list_cards(context):
        if len({card // GROUP for card in cards}) < 2 or _are_linked(context, cards):
            continue
        right = ",".join(map(str, range(len(cards))))
        do = _("Use {right}, or as many of 4,5,6,7.", right=right)
        listed = ",".join(map(str, cards))
        seen = _("cards {cards} are of both halves of the machine, which are not fully linked", cards=listed)
        yield warn_or_fail(len(cards) == GROUP, place, seen, do)


def _list_cards(context: LintContext) -> Iterator[tuple[list[int], TextSpan]]:
    """The lists of two to four cards of an eight-card machine, each with its place: the list of visible cards where the
    launcher uses all of them.

    With a list of visible cards, the launcher's list counts positions in it.
    """
    jobs = context.jobs if context.device == VENDOR.name else ()
    given: list[tuple[list[int], TextSpan]] = []
    for job in jobs:
        visible = job.command.environment.get(VISIBLE)
        listed = _parse_cards(job.device_list.known_text or "") if job.device_list else []
        if visible is not None:  # also a list that is not known
            seen = _parse_cards(visible.known_text or "")
            listed = [seen[position] for position in listed if position < len(seen)]
            if listed and sorted(listed) == sorted(seen):
                given.append((listed, visible))
                continue
        given += [(listed, job.device_list)] if job.device_list else []
    if not given:
        given = [(_parse_cards(value), place) for value, place in list_settings(context, VISIBLE)]
    given += [(_parse_cards(value), place) for value, place in list_settings(context, VENDOR.runtime_env)]
    yield from ((sorted(set(cards)), place) for cards, place in given if 2 <= len(cards) <= GROUP)


def _parse_cards(text: str) -> list[int]:
    return [int(number) for number in text.split(",")] if re.fullmatch(r"[0-7](,[0-7]){0,7}", text) else []


def _are_linked(context: LintContext, cards: list[int]) -> bool:
    """Whether the machine is known, and these of its cards are all linked to each other."""
    facts = context.machine.facts if context.is_for_this_machine else None
    topology = next((each.topology for each in facts.vendors if each.name == VENDOR.name), None) if facts else None
    if topology is None or cards[-1] >= len(topology.names):
        return False
    return find_unlinked_pair(topology, VENDOR.group_link, cards) is None
