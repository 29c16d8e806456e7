"""Paths that a script needs: programs, data, models, folders."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import UNKNOWN, Command, Remark, Script, Word
from envcheck.core.lint.remarks import fail, graded, listed, near, unknown, warn
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import REMOTE, bare, unwrapped
from envcheck.scripts.vendor_words import vendor_tools, vendor_words

_DATA = (
    "train_dataset_path",
    "eval_dataset_path",
    "dataset_dir",
    "data_path",
    "train_file",
    "validation_file",
    "deepspeed",
    "config_file",
    "tokenizer_model",
)
# Read from a folder where the value begins with a slash; else they may be a hub's names.
_MODELS = ("model_name_or_path", "model", "model_path", "adapter_name_or_path", "resume_from_checkpoint")


def clone_name(context: LintContext) -> Iterator[Remark]:
    """cd into a folder that no clone has made."""
    made: dict[str, str] = {}
    for script in context.scripts:
        for command in script.commands:
            words = unwrapped(command.words)
            texts = [word.text for word in words]
            if bare(command) == "git" and "clone" in texts:
                arguments = [t for t in texts[texts.index("clone") + 1 :] if not t.startswith("-") and t != "--"]
                urls = [t for t in arguments if "/" in t or t.endswith(".git")]
                if urls:
                    at = arguments.index(urls[0])
                    folder = arguments[at + 1] if at + 1 < len(arguments) else urls[0]
                    made[folder.rstrip("/").rpartition("/")[2].removesuffix(".git")] = urls[0]
            elif bare(command) in ("mkdir", "tar", "unzip", "cp", "mv", "ln", "curl", "wget"):
                made |= {t.rstrip("/").rpartition("/")[2]: "" for t in texts[1:]}
            elif bare(command) == "cd" and len(words) > 1:
                yield from _entered(context, script, words[-1], command.cwd, made, command.guarded)


def _entered(
    context: LintContext, script: Script, word: Word, cwd: str, made: dict[str, str], guarded: bool
) -> Iterator[Remark]:
    text = word.text
    if not word.known or text.startswith(("/", "~", ".", "-")) or not text or guarded:
        return
    first = text.split("/")[0]
    clones = [name for name, url in made.items() if url]
    if first in made:
        return
    meant = next(
        (
            name
            for name in clones
            if name.lower() == first.lower() or near(first.lower(), frozenset({name.lower()}), 0.75)
        ),
        "",
    )
    if meant:
        yield fail(word, f"no clone makes {first}: it is {meant}", f"cd {meant}")
    elif context.document and not cwd and context.machine.exists(text) is not True:
        known = near(
            first.lower(), frozenset({"erniekit", "ernie", "llama-factory", "ms-swift", "paddleformers"}), 0.75
        )
        seen = f"nothing in the document makes the folder {first[:60]}" + (
            ": a misspelt name?" if known and known != first.lower() else ""
        )
        yield warn(word, seen, "git clone first, and cd where the clone is.")


def _needs(job: TrainingJob) -> Iterator[tuple[str, Word]]:
    if job.launcher.program and job.program is not None and job.program.text.endswith(".py"):
        yield job.program.text, job.program
    for name in _DATA:
        given = job.option(name)
        for word in given.values if given else ():
            for part in word.text.split(","):
                if ("/" in part.strip("./") and not re.match(r"[\w.-]+/[\w.-]+$", part)) or part.endswith(
                    (".json", ".jsonl", ".yaml", ".txt")
                ):
                    yield part.strip(), word
    for name in _MODELS:
        given = job.option(name)
        yield from ((word.text, word) for word in (given.values if given else ()) if word.text.startswith("/"))
    preload = job.command.environment.get("LD_PRELOAD")
    for part in re.split(r"[ :]", preload.text) if preload else ():
        if part.startswith("/") and preload:
            yield part, preload


_FROM_THE_PROJECT = "cd to the project first, fetch the data, or name the path in full."


def missing(context: LintContext) -> Iterator[Remark]:
    """Files of a training that are not there; those that the script makes or looks for itself are left alone."""
    for job in context.jobs:
        if job.command.elsewhere or (job.command.words and job.command.name in REMOTE):
            continue
        gone: list[tuple[str, Word]] = []
        doubtful: list[tuple[str, Word]] = []
        for path, word in _needs(job):
            if not job.launcher.name and not path.startswith("/"):
                continue  # a configuration alone: nobody says from which folder it is started
            if UNKNOWN in path or not path or path.startswith(("http", "s3://", "hf://")) or _handled(job.script, path):
                continue
            there = context.machine.exists(path, job.command.cwd)
            if there is False and context.here:
                gone.append((path, word))
            elif there is False or (there is None and not context.machine.live):
                doubtful.append((path, word))
        if gone:
            names = listed(path for path, _ in gone)
            where = "below this folder" if not gone[0][0].startswith("/") else "on this machine"
            yield warn(
                gone[0][1],
                f"not there {where}: {names}",
                _FROM_THE_PROJECT,
            )
        if doubtful and context.machine.gather is not None:
            yield unknown(
                doubtful[0][1],
                f"not looked up, for {context.unasked}: {listed(p for p, _ in doubtful)}",
                "envcheck lint on the machine itself.",
            )


def _handled(script: Script, path: str) -> bool:
    """The script tests for it, writes it, or fetches it."""
    if path in script.tested:
        return True
    made = {r.target.text for c in script.commands for r in c.redirects if r.target is not None and ">" in r.text}
    if path in made:
        return True
    name = path.rstrip("/").rpartition("/")[2]
    return any(
        bare(c)
        in (
            "wget",
            "curl",
            "cp",
            "mv",
            "ln",
            "tar",
            "unzip",
            "mkdir",
            "git",
            "touch",
            "huggingface-cli",
            "modelscope",
            "hf",
        )
        and any(
            name and (word.text.rstrip("/").endswith(name) or path.startswith(word.text.rstrip("/") + "/"))
            for word in c.words[1:]
        )
        for c in script.commands
    )


_MAKES = ("mkdir", "install", "cp", "mv", "git", "tar", "unzip", "ln", "rsync")


def log_folder(context: LintContext) -> Iterator[Remark]:
    """A log in a folder that nobody made: the shell cannot open it, and starts nothing."""
    makers: dict[int, tuple[list[Command], list[Command]]] = {}
    for job in context.jobs:
        command, script = job.command, job.script
        if not context.here or context.document or command.elsewhere or script.opaque or not script.block.script:
            continue
        if id(script) not in makers:  # once for a script of a thousand trainings
            makers[id(script)] = (list(_named(script, _MAKES)), list(_named(script, ("tee",))))
        makes, tees = makers[id(script)]
        targets = [(r.target, True) for r in command.redirects if r.target is not None and ">" in r.text]
        piped = (c for c in tees if command.pipeline and c.pipeline == command.pipeline)
        targets += [(word, False) for each in piped for word in each.words[1:] if not word.text.startswith("-")]
        for word, starts in targets:
            folder = word.text.rpartition("/")[0]
            before = (c for c in makes if c.order < command.order)
            made = any(_same(folder, each.text) for c in before for each in c.words)
            if folder and not made and context.machine.exists(folder, command.cwd) is False:
                seen = f"{folder[:80]} is not there, and nothing here makes it"
                seen += ": the shell cannot open the log, and starts nothing" if starts else ": tee writes no log"
                yield graded(starts, word, seen, f"mkdir -p {folder[:80]}")


def _named(script: Script, names: Container[str]) -> Iterator[Command]:
    return (command for command in script.commands if bare(command) in names)


def _same(folder: str, made: str) -> bool:
    """It, or a folder below it, is made."""
    plain = made.rstrip("/").removeprefix("./")
    return plain == folder.removeprefix("./") or plain.startswith(f"{folder.removeprefix('./')}/")


def sourced(context: LintContext) -> Iterator[Remark]:
    """source of a file that is not there ends a script under set -e, and else goes on without it."""
    for script, command in context.commands("source", "."):
        if command.elsewhere:
            continue
        word = command.words[1] if len(command.words) > 1 else None
        if (
            word is None
            or not word.known
            or "/" not in word.text  # else it is sought on PATH
            or word.text in script.tested
            or command.guarded
            or command.branch
        ):
            continue
        there = None if context.here is False else context.machine.exists(word.text, command.cwd)
        if there is False and word.text.startswith("/"):
            do = "Install what brings it, or name where it is."
            yield graded("errexit" in command.shell, word, f"{word.text[:100]} is not there", do)
        elif there is False and not (context.document or word.text.startswith("~") or _handled(script, word.text)):
            yield warn(word, f"not there below this folder: {word.text[:100]}", _FROM_THE_PROJECT)


def upwards(context: LintContext) -> Iterator[Remark]:
    """A program several folders above: right from one folder alone."""
    for job in context.jobs:
        word = job.program
        if word is not None and word.text.startswith("../../") and not job.command.cwd:
            yield warn(
                word,
                f"{word.text[:60]} depends on the folder that the script is started in, and no cd says which",
                'cd "$(dirname "$0")", or the path in full.',
            )


def project(context: LintContext) -> Iterator[Remark]:
    """A document whose training uses a project's files, and that never says where the project comes from."""
    if not context.document or any(bare(c) == "cd" or "clone" in c.texts() for _, c in context.commands()):
        return
    image = any("run" in c.texts()[:3] for _, c in context.commands("docker", "podman"))
    for job in context.jobs:
        word = job.program
        if (
            word is not None
            and re.match(r"(examples|scripts|tools)/", word.text)
            and context.machine.exists(word.text) is not True
        ):
            seen = f"{word.text[:60]} is a project's file, and nothing in the document clones one" + (
                ", or enters its folder" if image else ""
            )
            yield warn(word, seen, "git clone the project at a known commit, and cd there.")
            return


def tool_unknown(context: LintContext) -> Iterator[Remark]:
    """Vendors' tools by names that nobody publishes."""
    tools = frozenset(vendor_tools())
    begins = "|".join(prefix for words in vendor_words().values() for prefix in words.tool_prefixes)
    for _, command in context.commands():
        name = bare(command)
        if name not in tools and re.match(rf"({begins})[-_]", name) and (meant := near(name, tools, 0.6)):
            yield warn(command.words[0], f"{name} is no tool of the driver or the toolkit", f"{meant} is one.")
