"""Chinese everywhere: each sentence of each file, found in the code by its syntax, leaves no English when said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from envcheck.core.language import translator
from envcheck.simulate import machine_file as described
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe
from installers.recipes.recipe_notes import leaves
from launch.infer import kits
from tests.envcheck.core.language import language_parts
from tests.envcheck.core.language.test_language import TABLES, whole
from tests.envcheck.core.language.test_language_reports import ENGLISH

ROOT = Path(__file__).parents[4]
# What is no sentence for a person before a screen: what programs read, scripts and pictures that are carried away,
# programs that run elsewhere and speak to us, and what only a developer starts.
FOR_PROGRAMS = (
    "envcheck/cli/docs_",
    "envcheck/checks/known_issues",
    *("envcheck/report/prometheus", "envcheck/report/junit"),
    *("installers/as_script", "envcheck/job/script", "envcheck/simulate/script", "envcheck/cli/commands/completion"),
    *(f"launch/backends/slurm/{name}" for name in ("script", "prolog", "control", "verdict")),
    *("launch/backends/k8s/scripts", "launch/backends/k8s/session"),
    *(
        "launch/run/loss_plot",
        "launch/planner/output/picture",
        "launch/planner/output/plots",
        "installers/programs/",
        "launch/programs/",
    ),
    *("envcheck/explain/catalogue", "envcheck/compat/loading", "probes/"),
)
SAYERS = {
    **language_parts.SAYERS,
    **dict.fromkeys(("say", "spoken", "spoken_aside", "_wrapped", "echo", "confirm"), (0,)),
    **dict.fromkeys(("EnvcheckError", "NoSeedError", "LockError", "BundleError", "Obstacle", "_stop"), (0, 1)),
    "Verdict": (1, 2),
    "Problem": (1, 2),
    "ByHand": (1,),
    "Step": (1, 2, 3, 4),
    "Event": (1,),
    "Fault": (0,),
}
# A command that is there to be pasted, a pattern, a list of names.
PASTED = re.compile(
    r"(?:sudo|docker|envcheck|git|pip|apt-get|yum|groupadd|mkdir|rm|mv|ls|df|cat|sh|env|find|kubectl)(?: -| \w).*"
    r"|`[^`]*`|-m [\w.]+ \w+|https?://\S+|\"[^\"]*\"|'[^']*'"
)
FOLDERS = sorted({file.parent for name in ("envcheck", "installers", "launch") for file in (ROOT / name).rglob("*.py")})


def files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.glob("*.py")) if not str(file.relative_to(ROOT)).startswith(FOR_PROGRAMS)]


def english(text: str) -> list[str]:
    """Two English words in a row, where the sentence is said with a figure for each value."""
    said = SAY(text.replace("{}", "7"))
    return ENGLISH.findall(PASTED.sub("|", said))


SAY = translator.load("zh")


@pytest.mark.parametrize("folder", [f for f in FOLDERS if files(f)], ids=lambda f: ".".join(f.relative_to(ROOT).parts))
def test_each_sentence_of_a_folder_is_said_in_chinese(folder: Path) -> None:
    """Whatever is said, refused, advised, asked or handed on: a file that is new is read, too."""
    told = {text: file.name for file in files(folder) for text in language_parts.sentences(file, SAYERS)}

    assert {text: name for text, name in told.items() if english(text) and not whole(text)} == {}


def test_what_recipes_and_machines_say_has_its_chinese() -> None:
    """Titles, cautions, reasons, and what stood in the published document; values and sources stay as they are."""
    titles = {described.load(name, None).title for name in described.names(None)}
    told = {text for recipe in catalogue.load_all(None) for text in _of(recipe)} | titles
    told |= {text for kit in kits.kits() for text in (kit.title, *kit.caution)}

    assert len(told) > 250
    assert sorted(text for text in told if text not in TABLES and SENTENCE.search(text) and english(text)) == []


SENTENCE = re.compile(r"^[^-$/{*][^=_]* (?:[a-z]+ )?[a-z]{3,}")  # no option, path, command or list of names


def _of(recipe: Recipe) -> Iterator[str]:
    yield from (recipe.title, *(job.title for job in recipe.jobs))
    yield from (text for job in recipe.jobs for text in job.caution)
    for trap in recipe.traps:
        yield from (trap.seed_value, trap.instead, trap.reason)
    for leaf in leaves(recipe):
        yield from (str(leaf.note.seed_value or ""), leaf.note.reason)
