"""The documents of solve and recipes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envcheck.cli.schemas.check_documents import JobValues, NumberedDocument, OutcomeDocument
from envcheck.cli.schemas.generate import Keys, key, optional_key
from installers.recipes.recipe import Recipe, SourceNote


class SolvedPair(Keys):
    components: dict[str, str] = key("Versions of the two components, by name.")
    verdict: str = key("tested, unknown or known bad.")
    confidence: str | None = key("Evidence of the verdict: tried, documented, reported or inferred; null for unknown.")
    source: list[str] = key("Documents that the verdict comes from; may be empty.")
    date: str = key("Date of the source, such as 2025-07; empty for unknown.")
    symptom: str = key("What fails with a known bad pair; empty otherwise.")
    remedy: str = key("What to install instead; may be empty.")
    note: str = key("Remark; may be empty.")
    documented_versions: list[str] = key(
        "Versions of the second component that are documented with the first; may be empty."
    )


class SolvedImage(Keys):
    references: list[str] = key("Image names, the same image in several registries.")
    caveat: str = key("Why the tag may be unreliable; empty for none.")
    date: str = key("Date of the source, such as 2025-07.")


class SolvedSet(Keys):
    versions: dict[str, str] = key("Versions by component, with the driver and the CPU architecture.")
    changes: list[str] = key("Components that are installed in another version.")
    documented: bool = key("Whether every pair of the set is documented; false if one is inferred.")
    pairs: list[SolvedPair] = key("Verdict on each pair of the set.")
    images: list[SolvedImage] = key("Container images with these versions; may be empty.")
    commands: list[str] = key("Commands that install the packages of the set.")


class SolveDocument(Keys, like=OutcomeDocument):
    device: str
    framework: str
    driver: str | None = key("Driver version that the sets are for; null if unknown.")
    architecture: str
    verdict: Literal["tested", "unknown", "none"] = key(
        "tested: a tested set exists; unknown: only an inferred or undocumented set; none: no set."
    )
    tested: SolvedSet | None = key("Newest tested set for the driver; null for none.")
    inferred: SolvedSet | None = key("Inferred set; null for none.")
    missing: list[str] = key("Why no tested set was found; may be empty.")
    other_drivers: list[SolvedSet] = key("Sets that need another driver; may be empty.")
    installed: dict[str, str] = key("Installed versions by component; empty if this machine was not checked.")
    installed_pairs: list[SolvedPair] = key("Verdict on each pair of installed versions.")


class RecipeValues(Keys, like=Recipe):
    notes: dict[str, SourceNote] = key("Source of each value, by its path, such as hardware.memory_gib.")
    custom: bool = key("Whether the recipe is the user's own; false for a built-in one.")


class RecipesDocument(Keys, like=NumberedDocument):
    recipes: list[RecipeValues] = key("The recipes.")
    job: JobValues = optional_key("With `recipes show`: the recipe's job on this machine.")


DOCUMENTS: dict[str, tuple[str, type, Mapping[str, Any]]] = {
    "solve": ("envcheck solve --json", SolveDocument, {}),
    "recipes": ("envcheck recipes --json", RecipesDocument, {}),
}
