"""The keys of what solve and recipes print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envcheck.cli.schemas.check_documents import JobValues, NumberedDocument, OutcomeDocument
from envcheck.cli.schemas.generate import Keys, maybe
from installers.recipes.recipe import Note, Recipe


class SolvedPair(Keys):
    components: dict[str, str]
    verdict: str
    confidence: str | None
    source: list[str]
    date: str
    symptom: str
    remedy: str
    note: str
    named: list[str]


class SolvedImage(Keys):
    references: list[str]
    doubt: str
    date: str


class SolvedSet(Keys):
    versions: dict[str, str]
    change: list[str]
    stated: bool
    because: list[SolvedPair]
    images: list[SolvedImage]
    commands: list[str]


class SolveDocument(Keys, like=OutcomeDocument):
    device: str
    framework: str
    driver: str | None
    architecture: str
    verdict: Literal["tested", "unknown", "none"]
    tested: SolvedSet | None
    guess: SolvedSet | None
    missing: list[str]
    other_drivers: list[SolvedSet]
    here: dict[str, str]
    judged: list[SolvedPair]


class RecipeValues(Keys, like=Recipe):
    notes: dict[str, Note]
    own: bool


class RecipesDocument(Keys, like=NumberedDocument):
    recipes: list[RecipeValues]
    job: JobValues = maybe("recipes show: the recipe's job on this machine")


DOCUMENTS: dict[str, tuple[str, type, Mapping[str, Any]]] = {
    "solve": ("envcheck solve --json", SolveDocument, {}),
    "recipes": ("envcheck recipes --json", RecipesDocument, {}),
}
