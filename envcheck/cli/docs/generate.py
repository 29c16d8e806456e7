"""Which pages of docs/ are generated, and the command that writes them."""

from __future__ import annotations

from pathlib import Path

from envcheck.cli.docs import (
    check_pages,
    command_pages,
    error_catalogue_page,
    json_page,
    lint_page,
    pictures,
    preflight_page,
    recipes_page,
    screens,
    simulation_page,
    supported_page,
)

PAGES = {
    "reference/commands.md": command_pages.commands_page,
    "reference/exit-codes.md": command_pages.exit_codes_page,
    "reference/preflight.md": preflight_page.page,
    "reference/lint-rules.md": lint_page.page,
    "reference/error-catalogue.md": error_catalogue_page.page,
    "reference/json.md": json_page.page,
    "reference/recipes.md": recipes_page.page,
    "reference/simulated-machines.md": simulation_page.page,
    "supported.md": supported_page.page,
}


def pages() -> dict[str, str]:
    """Return the generated pages by their paths below docs/."""
    checks = {f"reference/checks/{name}": text for name, text in check_pages.pages().items()}
    return {**{name: make() for name, make in PAGES.items()}, **checks}


def write_pages(root: Path) -> list[Path]:
    """Write the pages that differ; return their paths."""
    changed = []
    for name, text in pages().items():
        path = root / "docs" / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def main(words: list[str]) -> None:
    root = Path.cwd()
    changed = [] if words and "pages" not in words else write_pages(root)
    changed += [] if words and "screens" not in words else screens.write(root)
    changed += pictures.write(root / "docs" / "images") if "pictures" in words else []
    print("\n".join(str(path.relative_to(root)) for path in changed) or "nothing changed")
