"""Containers as a file tells of them: by docker run, as a service of a compose file, as what a Dockerfile builds on.

All have the options of docker run, so that a rule is written once; `written` says them in the file's own way.
"""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.lint.model import Command, Word


@dataclass(frozen=True)
class BindMount:
    """`strict`: the engine refuses a source that is missing, where it makes a folder else."""

    source: str
    target: str
    word: Word
    strict: bool = False


@dataclass(frozen=True)
class ScriptContainer:
    """`options` are docker's, (name, value's word); `service`: of a compose file, which makes and removes it by name;
    `partial`: options may be told elsewhere.
    """

    command: Command
    image: Word | None
    options: tuple[tuple[str, Word], ...] = ()
    service: bool = False
    partial: bool = False

    def all(self, *names: str) -> list[Word]:
        return [word for name, word in self.options if name in names]

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def written(self, option: str, *values: str) -> str:
        """As the file has it: --shm-size 64g, or shm_size: 64g; a list in braces, so that no key looks like a word."""
        if not self.service:
            return " ".join(f"{option} {value}" for value in values) or option
        key = KEYS.get(option, option.lstrip("-").replace("-", "_"))
        if key in LISTS and values:
            return f"{{{key}: [{', '.join(values)}]}}"
        return f"{key}: {' '.join(values)}" if values else key

    @property
    def place(self) -> Word | Command:
        return self.image or self.command

    @property
    def environment(self) -> list[tuple[str, str, Word]]:
        """(name, value, word) of the variables that are set in it."""
        found = []
        for word in self.all("-e", "--env"):
            name, equals, value = word.text.partition("=")
            if equals:
                found.append((name, value, word))
        return found

    @property
    def mounts(self) -> list[BindMount]:
        found = []
        for word in self.all("-v", "--volume"):
            parts = word.text.split(":")
            if len(parts) > 1:
                found.append(BindMount(parts[0], parts[1], word))
        for word in self.all("--mount"):
            pairs = dict(part.partition("=")[::2] for part in word.text.split(","))
            source = pairs.get("source") or pairs.get("src")
            target = pairs.get("target") or pairs.get("dst") or pairs.get("destination")
            if source and target and pairs.get("type") == "bind":
                found.append(BindMount(source, target, word, strict=True))
        return found

    @property
    def open(self) -> bool:
        """More options may be there than can be seen."""
        return self.partial or self.command.open


# Options of docker run whose keys in a compose file are called otherwise; the others are alike but for dashes.
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
