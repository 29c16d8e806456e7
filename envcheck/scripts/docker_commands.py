"""Parse docker run, create, pull and build: the containers that they start, and the images that they name."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from envcheck.core.lint.script_container import ScriptContainer
from envcheck.core.lint.script_model import ShellCommand, ShellScript, ShellWord
from envcheck.core.lint.wrappers import ENGINES, program_name, strip_wrappers
from envcheck.scripts.vendor_words import list_device_node_names

# Options without a value; all others take the next word.
_FLAGS = re.compile(
    "--(rm|privileged|init|interactive|tty|detach|read-only|quiet|replace|no-healthcheck|oom-kill-disable|publish-all)|"
    "--sig-proxy|-q|-[itdP]+"
)
_IMAGE_NAME = re.compile("(?i)image|img")  # in the name of a variable
_IMAGE = re.compile(r"[\w.-]+(?:/[\w./-]+)?[:@]\S+|[\w.-]+/\S+")  # and not a command: of a registry, or with a tag
_CARD = re.compile(rf"/dev/({'|'.join(list_device_node_names())})\d+")
_CARDS = re.compile("|".join(list_device_node_names()))


def find_containers(commands: Iterable[tuple[ShellScript, ShellCommand]]) -> Iterator[ScriptContainer]:
    """Yield the containers of docker run and docker create."""
    for _, command in commands:
        words = strip_wrappers(command.words)
        texts = [word.text for word in words[:3]]
        at = 2 if texts[1:2] in (["run"], ["create"]) else 3 if texts[1:3] == ["container", "run"] else 0
        if at and program_name(command) in ENGINES:
            yield _read_container(command, words[at:])


def _read_container(command: ShellCommand, words: tuple[ShellWord, ...]) -> ScriptContainer:
    options, takes, unread = [], "", False
    for word in words:
        if takes:
            options.append((takes, word))
            takes = ""
        elif word.text.startswith("-"):
            name, equals, value = word.text.partition("=")
            if equals:
                options.append((name, ShellWord(value, word.start, word.end, raw=word.raw)))
            elif _FLAGS.fullmatch(name):
                options.append((name, word))
            else:
                takes = name
        elif word.many:  # options, or the image
            unread = True
            if _IMAGE_NAME.search(word.raw):
                break
        elif unread and not _IMAGE.fullmatch(word.text):
            break
        else:
            return ScriptContainer(command, word, tuple(options))
    return ScriptContainer(command, None, tuple(options))


def find_pulled_images(commands: Iterable[tuple[ShellScript, ShellCommand]]) -> list[ShellWord]:
    """Yield the images of docker pull."""
    found = []
    for _, command in commands:
        words = strip_wrappers(command.words)
        if len(words) > 2 and words[1].text == "pull":
            found += [word for word in words[2:] if not word.text.startswith("-")]
    return found


def find_built_images(commands: Iterable[tuple[ShellScript, ShellCommand]]) -> set[str]:
    """Return images that the script builds, tags or loads itself."""
    names: set[str] = set()
    for _, command in commands:
        texts = [word.text for word in command.words]
        names |= {after for before, after in itertools.pairwise(texts) if before in ("-t", "--tag")}
        if {"tag", "load", "commit"} & set(texts[1:3]):
            names.add(texts[-1])
    return names


def count_devices(container: ScriptContainer) -> int | None:
    """Return the number of devices passed to the container, if all of them are known."""
    devices = container.list_option_values("--device")
    if (
        container.may_have_more_options
        or container.has_option("--privileged", "--env-file")
        or not all(word.is_known for word in devices)
    ):
        return None
    paths = [word.text.partition(":")[0] for word in devices]
    named = {path for path in paths if _CARD.fullmatch(path)}
    counts = [word.text for word in container.list_option_values("--gpus")]
    if len(counts) == 1 and re.fullmatch("[0-9]{1,3}", counts[0]):
        return int(counts[0])
    if len(counts) == 1 and (listed := re.fullmatch(r"\"?device=([0-9]{1,3}(?:,[0-9]{1,3})*)\"?", counts[0])):
        return len(set(listed[1].split(",")))
    return len(named) or None if not counts and "/dev" not in paths else None


def has_devices(container: ScriptContainer) -> bool:
    """Return whether devices are passed to the container."""
    if container.has_option("--gpus", "--runtime") or any(
        _CARDS.search(word.text) for word in container.list_option_values("--device")
    ):
        return True
    return container.has_option("--privileged") and (container.image is not None or container.service)
