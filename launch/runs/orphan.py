"""What is known about an orphaned run: its processes, cards and current step."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.messages import Message, _, join, verbatim
from launch.run import container_orphan, host_training, process_tree
from launch.runs import follow, run_index
from launch.runs.run_state import Run

SHOWN = 16  # process ids in a message


@dataclass(frozen=True)
class OrphanState:
    """An orphaned run; `pids` are those in the container if the run has one."""

    run: Run
    pids: tuple[int, ...] = ()
    cards: tuple[str, ...] = ()
    step: str = ""


def inspect_orphan(run: Run) -> OrphanState:
    """Return the state of an orphaned run."""
    return OrphanState(run, list_orphan_pids(run), list_cards(run), follow.describe_last_step(run))


def list_cards(run: Run) -> tuple[str, ...]:
    """Return the labels of the run's cards, () if they are unknown."""
    cards = run.said.get("cards_used")
    return tuple(str(card) for card in cards) if isinstance(cards, list) else ()


def list_orphan_pids(run: Run) -> tuple[int, ...]:
    """Return the living processes of the run."""
    if run.get_text("container"):
        return container_orphan.list_pids(run.folder, run.said) or ()
    shim = host_training.find_shim(run.said)
    mark = run_index.find_mark(run.folder, run.said) or str(run.folder)
    return tuple(sorted(process.pid for process in process_tree.find_members(mark, shim.pid if shim else 0)))


def describe_orphan(state: OrphanState) -> Message:
    """'pids 4711, 4712; cards 0, 1; step 30 of 50, loss 1.2'"""
    parts: list[Message] = []
    if state.pids:
        parts.append(_("pids {pids}", pids=", ".join(map(str, state.pids[:SHOWN]))))
    if state.cards:
        parts.append(_("cards {cards}", cards=", ".join(state.cards)))
    if state.step:
        parts.append(verbatim(state.step))
    return join("; ", parts)
