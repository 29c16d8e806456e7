"""Containers in a file: docker run commands, services of a compose file, and the base image of a Dockerfile.

All have the options of docker run, so that a rule is written once; `render_option` writes them in the file's own
format.
"""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.lint.script_model import ShellCommand, ShellWord


@dataclass(frozen=True)
class BindMount:
    """`strict`: the engine rejects a missing source; otherwise it creates a folder."""

    source: str
    target: str
    word: ShellWord
    strict: bool = False


@dataclass(frozen=True)
class ScriptContainer:
    """`options` are docker's as (name, word of the value); `service`: from a compose file, which creates and removes it
    by name; `partial`: options may be set elsewhere too."""

    command: ShellCommand
    image: ShellWord | None
    options: tuple[tuple[str, ShellWord], ...] = ()
    service: bool = False
    partial: bool = False

    def list_option_values(self, *names: str) -> list[ShellWord]:
        """Return the values of an option, by any of these names."""
        return [word for name, word in self.options if name in names]

    def has_option(self, *names: str) -> bool:
        """Return whether one of these options is set."""
        return any(name in names for name, _unused in self.options)

    def render_option(self, option: str, *values: str) -> str:
        """Return the option in the file's format: --shm-size 64g, or shm_size: 64g; lists are in braces."""
        if not self.service:
            return " ".join(f"{option} {value}" for value in values) or option
        key = KEYS.get(option, option.lstrip("-").replace("-", "_"))
        if key in LISTS and values:
            return f"{{{key}: [{', '.join(values)}]}}"
        return f"{key}: {' '.join(values)}" if values else key

    @property
    def location(self) -> ShellWord | ShellCommand:
        """The position of remarks on the container: its image, else its command."""
        return self.image or self.command

    @property
    def environment(self) -> list[tuple[str, str, ShellWord]]:
        """The variables set in the container, as (name, value, word)."""
        found = []
        for word in self.list_option_values("-e", "--env"):
            name, equals, value = word.text.partition("=")
            if equals:
                found.append((name, value, word))
        return found

    @property
    def mounts(self) -> list[BindMount]:
        """The bind mounts of -v and --mount."""
        found = []
        for word in self.list_option_values("-v", "--volume"):
            parts = word.text.split(":")
            if len(parts) > 1:
                found.append(BindMount(parts[0], parts[1], word))
        for word in self.list_option_values("--mount"):
            pairs = dict(part.partition("=")[::2] for part in word.text.split(","))
            source = pairs.get("source") or pairs.get("src")
            target = pairs.get("target") or pairs.get("dst") or pairs.get("destination")
            if source and target and pairs.get("type") == "bind":
                found.append(BindMount(source, target, word, strict=True))
        return found

    @property
    def may_have_more_options(self) -> bool:
        """Whether there may be options that cannot be determined."""
        return self.partial or self.command.may_have_more_words


# Options of docker run with another key in a compose file; the others differ only in dashes.
KEYS = {
    "-v": "volumes",
    "--volume": "volumes",
    "--device": "devices",
    "-e": "environment",
    "--env": "environment",
    "-p": "ports",
    "--publish": "ports",
    "--name": "container_name",
}
LISTS = frozenset(("volumes", "devices", "environment", "ports", "cap_add"))
