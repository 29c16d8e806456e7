"""Containers as a file tells of them: by docker run, as a service of a compose file, as what a Dockerfile builds on.

All have the options of docker run, so that a rule is written once; `written` says them in the file's own way.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from envcheck.core.lint.model import Command, Script, Word
from envcheck.scripts.wrappers import bare, unwrapped

ENGINES = ("docker", "podman", "nerdctl")
# Options without a value; the others take the next word.
_FLAGS = re.compile(
    "--(rm|privileged|init|interactive|tty|detach|read-only|quiet|replace|no-healthcheck|oom-kill-disable|publish-all)|"
    "--sig-proxy|-q|-[itdP]+"
)
_CARD = re.compile(r"/dev/(davinci|iluvatar|nvidia)\d+")
_CARDS = re.compile("davinci|iluvatar|nvidia")


@dataclass(frozen=True)
class Mount:
    """`strict`: the engine refuses a source that is missing, where it makes a folder else."""

    source: str
    target: str
    word: Word
    strict: bool = False


@dataclass(frozen=True)
class Container:
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
    def mounts(self) -> list[Mount]:
        found = []
        for word in self.all("-v", "--volume"):
            parts = word.text.split(":")
            if len(parts) > 1:
                found.append(Mount(parts[0], parts[1], word))
        for word in self.all("--mount"):
            pairs = dict(part.partition("=")[::2] for part in word.text.split(","))
            source = pairs.get("source") or pairs.get("src")
            target = pairs.get("target") or pairs.get("dst") or pairs.get("destination")
            if source and target and pairs.get("type") == "bind":
                found.append(Mount(source, target, word, strict=True))
        return found

    @property
    def cards(self) -> int | None:
        """How many are handed in, where all of them can be seen."""
        if self.open or self.has("--privileged", "--env-file") or not all(w.known for w in self.all("--device")):
            return None
        paths = [word.text.partition(":")[0] for word in self.all("--device")]
        named = {path for path in paths if _CARD.fullmatch(path)}
        counts = [word.text for word in self.all("--gpus")]
        if len(counts) == 1 and re.fullmatch("[0-9]{1,3}", counts[0]):
            return int(counts[0])
        if len(counts) == 1 and (listed := re.fullmatch(r"\"?device=([0-9]{1,3}(?:,[0-9]{1,3})*)\"?", counts[0])):
            return len(set(listed[1].split(",")))
        return len(named) or None if not counts and "/dev" not in paths else None

    @property
    def open(self) -> bool:
        """More options may be there than can be seen."""
        return self.partial or self.command.open

    @property
    def trains(self) -> bool:
        """Cards are given to it."""
        if self.has("--gpus", "--runtime") or any(_CARDS.search(word.text) for word in self.all("--device")):
            return True
        return self.has("--privileged") and (self.image is not None or self.service)


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


def of_commands(commands: Iterable[tuple[Script, Command]]) -> Iterator[Container]:
    """docker run, docker create."""
    for _, command in commands:
        words = unwrapped(command.words)
        texts = [word.text for word in words[:3]]
        at = 2 if texts[1:2] in (["run"], ["create"]) else 3 if texts[1:3] == ["container", "run"] else 0
        if at and bare(command) in ENGINES:
            yield _read(command, words[at:])


def _read(command: Command, words: tuple[Word, ...]) -> Container:
    options, takes = [], ""
    for word in words:
        if takes:
            options.append((takes, word))
            takes = ""
        elif word.text.startswith("-"):
            name, equals, value = word.text.partition("=")
            if equals:
                options.append((name, Word(value, word.start, word.end, raw=word.raw)))
            elif _FLAGS.fullmatch(name):
                options.append((name, word))
            else:
                takes = name
        elif not word.many:
            return Container(command, word, tuple(options))
    return Container(command, None, tuple(options))


def pulled(commands: Iterable[tuple[Script, Command]]) -> list[Word]:
    """The images of docker pull."""
    found = []
    for _, command in commands:
        words = unwrapped(command.words)
        if len(words) > 2 and words[1].text == "pull":
            found += [word for word in words[2:] if not word.text.startswith("-")]
    return found


def made(commands: Iterable[tuple[Script, Command]]) -> set[str]:
    """Images that the script builds, tags or loads itself."""
    names: set[str] = set()
    for _, command in commands:
        texts = [word.text for word in command.words]
        names |= {after for before, after in itertools.pairwise(texts) if before in ("-t", "--tag")}
        if {"tag", "load", "commit"} & set(texts[1:3]):
            names.add(texts[-1])
    return names
