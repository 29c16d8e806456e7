"""What a script installs by pip."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.lint.model import Command, Script, Word


@dataclass(frozen=True)
class PipInstall:
    """One pip install: its packages as (name, extras, specifier, word)."""

    script: Script
    command: Command
    packages: tuple[tuple[str, str, str, Word], ...]
    options: tuple[tuple[str, Word], ...]  # option, its value or itself

    def has(self, *names: str) -> Word | None:
        return next((word for name, word in self.options if name in names), None)
