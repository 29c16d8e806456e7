"""Lines of `envcheck train --dry-run` about what differs from the published document, and what is assumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from envcheck.core.facts import Facts
from envcheck.core.language import translate
from envcheck.core.messages import Message, _
from envcheck.job.definition import Job
from envcheck.job.option_changes import list_option_changes
from installers.recipes.published_differences import PublishedDifference, list_differences
from launch.targets.train_request import TrainRequest


@dataclass(frozen=True)
class DryRunNotes:
    """`changes` are options that the installed version of the program has otherwise."""

    differences: tuple[PublishedDifference, ...] = ()
    changes: tuple[Message, ...] = ()
    assumed: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the keys of the document."""
        return {
            "differences": [asdict(difference) for difference in self.differences],
            "option_changes": list(self.changes),
            "assumed": list(self.assumed),
        }


def collect_notes(request: TrainRequest, job: Job, facts: Facts) -> DryRunNotes:
    """Return the notes of a job; the assumptions are those of the memory plan."""
    differences = () if job.own else list_differences(job.recipe, job.method)
    assumed = tuple(job.plan.job.assumed) if job.plan else ()
    return DryRunNotes(differences, list_option_changes(request, job, facts), assumed)


def render_notes(notes: DryRunNotes) -> Iterator[tuple[str, str]]:
    """Yield indentation and translated text of each line, with headings."""
    parts = (
        (_("differs from the published document"), map(_describe_difference, notes.differences)),
        (_("changed for the installed version"), notes.changes),
        (_("assumed for the memory"), notes.assumed),
    )
    for heading, lines in parts:
        found = [translate(line) for line in lines]
        if found:
            yield "", f"{translate(heading)}{translate(_(':'))}"
            yield from (("  ", line) for line in found)


def _describe_difference(difference: PublishedDifference) -> Message:
    values = {"value": difference.value, "published": translate(difference.published)}
    if not difference.reason:
        return _("{value}: published {published}", **values)
    return _("{value}: published {published}; {reason}", **values, reason=translate(difference.reason))
