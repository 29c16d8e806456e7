"""The packages that a script installs with pip."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.lint.script_model import ShellCommand, ShellScript, ShellWord


@dataclass(frozen=True)
class PipInstall:
    """One pip install; packages are (name, extras, specifier, word)."""

    script: ShellScript
    command: ShellCommand
    packages: tuple[tuple[str, str, str, ShellWord], ...]
    options: tuple[tuple[str, ShellWord], ...]  # the option, and its value or itself

    def find_option(self, *names: str) -> ShellWord | None:
        """Return the last word of an option, by any of these names, or None."""
        return next((word for name, word in self.options if name in names), None)
