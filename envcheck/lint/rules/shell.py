"""What the shell makes of the script: variables that are not there, what is removed, statuses that are lost."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.lint.model import UNKNOWN, Command, Fix, Remark, Script, Use, Word
from envcheck.lint.paper import Paper
from envcheck.lint.rules.common import fail, near, swap, warn
from envcheck.lint.wrappers import bare, unwrapped

# Set by the shell, the system or a job platform.
_GIVEN = re.compile(
    r"HOME|PATH|PWD|OLDPWD|USER|LOGNAME|SHELL|TERM|LANG|LC_\w+|HOSTNAME|HOSTTYPE|OSTYPE|MACHTYPE|UID|EUID|PPID|RANDOM|"
    r"SECONDS|LINENO|IFS|TMPDIR|TMP|TEMP|DISPLAY|EDITOR|BASH\w*|PIPESTATUS|FUNCNAME|OPTARG|OPTIND|REPLY|COLUMNS|LINES|"
    r"SLURM_\w+|PBS_\w+|LSB_\w+|OMPI_\w+|PMI_\w+|KUBERNETES_\w+|VC_\w+|CONDA_\w+|VIRTUAL_ENV|DISTRIBUTED_\w+|"
    r"EPOCH\w+|SRANDOM|DIRSTACK|GROUPS|SHLVL|SHELLOPTS|COMP_\w+|MA_\w+|HOSTFILE|SUDO_\w+|XDG_\w+"
)
_SHELLISH = ("rm", "unlink", "shred")
_RISKY = ("/", "/*", "~", "~/", "/home", "/root", "/usr", "/etc", "/var", "/opt", "*")


def _never(script: Script, paper: Paper, name: str) -> bool:
    """No part of the script gives it a value, and nothing that it cannot see may."""
    session = [script] if script.block.script else [each for each in paper.scripts if not each.block.script]
    return not any(name in each.names or each.opaque for each in session) and not _GIVEN.fullmatch(name)


def _own(name: str) -> bool:
    """Written small: a variable of the script's own, which nobody sets from outside."""
    return name == name.lower() and len(name) > 1


def unset(paper: Paper) -> Iterator[Remark]:
    for script in paper.scripts:
        told: set[str] = set()
        removed = {
            (use.start, use.end) for command in script.commands if bare(command) in _SHELLISH for use in command.uses
        }
        guarded = {use.name for use in script.uses if use.guarded}
        for use in script.uses:
            if use.guarded or use.bound or use.name in told | guarded or (use.start, use.end) in removed:
                continue
            remark = _unset(script, paper, use)
            if remark:
                told.add(use.name)
                yield remark


def _unset(script: Script, paper: Paper, use: Use) -> Remark | None:
    if not _never(script, paper, use.name):
        later = next((a for a in script.assigns if a.name == use.name and a.start > use.start and not a.prefix), None)
        if later is None or not _own(use.name) or any(use.name in c.environment for c in script.commands):
            return None
        if script.functions or script.opaque:
            return None
        return warn(use, f"{use.name} is read here and given a value only further down", "Set it above.")
    meant = near(use.name, frozenset(script.names), 0.75) or next(
        (name for name in sorted(script.names) if name.endswith(f"_{use.name}") or name.startswith(f"{use.name}_")), ""
    )
    if not (_own(use.name) or (meant and near(use.name, frozenset({meant}), 0.85))):
        return None
    seen = f"{use.name} is never given a value here: it is empty" + (f"; is {meant} meant?" if meant else "")
    stop = (
        ", and the script stops there (set -u)"
        if b"set -u" in script.block.raw or b"set -eu" in script.block.raw
        else ""
    )
    return warn(use, seen + stop, f"Write ${{{meant}}}." if meant else f"Set {use.name}, or write ${{{use.name}:?}}.")


def remove(paper: Paper) -> Iterator[Remark]:
    """rm of what may be empty, of a root, or of the last run's results."""
    for script, command in paper.commands(*_SHELLISH):
        words = unwrapped(command.words)
        flags = "".join(word.text for word in words[1:] if word.text.startswith("-"))
        for word in words[1:]:
            if word.text.startswith("-") and word.text != "-":
                continue
            uses = [use for use in command.uses if word.start <= use.start < word.end]
            yield from _removed(paper, script, word, uses, "r" in flags or "R" in flags)


def _removed(paper: Paper, script: Script, word: Word, uses: list[Use], deep: bool) -> Iterator[Remark]:
    loose = [use for use in uses if not use.guarded and not use.bound]
    never = [use for use in loose if _never(script, paper, use.name)]
    if word.text in _RISKY and not word.quoted and deep and word.raw == word.text:
        yield fail(word, f"removes {word.text}, all of it", "Name the folder that is meant.")
    elif never and _own(never[0].name):
        use = never[0]
        meant = next(
            (n for n in sorted(script.names) if n.endswith(f"_{use.name}") or near(n, frozenset({use.name}), 0.8)), ""
        )
        rest = word.text.replace(UNKNOWN, "")
        does = (
            f"this removes {rest}"
            if rest.strip("/*") or "/" in rest
            else "nothing is removed, and a launcher appends to old logs"
        )
        seen = f"{use.name} is never given a value here, so {does}" + (f"; {meant} is set" if meant else "")
        name = meant or use.name
        do = f"A new folder for each run needs no removal; else write ${{{name}:?}}, which stops when it is empty."
        yield fail(word, seen, do)
    elif loose and deep and re.search(rf"{UNKNOWN}/", word.text):
        use = loose[0]
        seen = f"where {use.name} is not set from outside, this removes {word.text.replace(UNKNOWN, '') or '/'}"
        fix = swap(use, f"${{{use.name}:?}}")
        yield warn(word, seen, f"Write ${{{use.name}:?}}: then it stops when that is empty.", fix)
    elif deep and word.known and (job := _results(paper, script, word.text)):
        seen = f"removes {word.text[:80]}, the {job} of the run before, without asking"
        yield warn(word, seen, "Give each run a folder of its own, with the date in its name.")


def _results(paper: Paper, script: Script, path: str) -> str:
    for job in paper.jobs:
        if job.script is script:
            for name, title in (
                ("log_dir", "logs"),
                ("output_dir", "results"),
                ("logging_dir", "logs"),
                ("save", "checkpoints"),
            ):
                given = job.says(name) or job.option(name)
                if given and given.value and given.value.rstrip("/") == path.rstrip("/"):
                    return title
    return ""


_READERS = ("trap", "test", "[", "let", "printf", "compgen", "declare")


def unused(paper: Paper) -> Iterator[Remark]:
    """A value that is given and never read; scripts that others read are left alone."""
    for script in paper.scripts:
        if not script.block.script or script.opaque:
            continue
        texts = (w.text for c in script.commands if c.name in _READERS for w in c.words)
        used = {use.name for use in script.uses} | set(re.findall(r"[A-Za-z_]\w*", " ".join(texts)))
        arithmetic = set(
            re.findall(
                rb"\w+",
                b" ".join(re.findall(rb"\(\(.{0,200}?\)\)|\$\{!?\w+\[.{0,80}?\]|\[\[.{0,200}?\]\]", script.block.raw)),
            )
        )
        seen: set[str] = set()
        for assign in script.assigns:
            if assign.exported or assign.prefix or assign.name in used | seen or not _own(assign.name):
                continue
            if (
                assign.name.encode() in arithmetic
                or assign.name == "_"
                or any(c.name == assign.name for c in script.commands)
            ):
                continue
            seen.add(assign.name)
            yield warn(
                assign,
                f"{assign.name} is given a value that nothing reads",
                "Use it where it is meant, or take it away.",
            )


_ENVIRONMENT = re.compile(
    r"(CUDA|ASCEND_RT|ILUVATAR_GPU|HIP|ROCR)_VISIBLE_DEVICES|NPROC_PER_NODE|NNODES|NODE_RANK|MASTER_(ADDR|PORT)|FORCE_TORCHRUN|"
    r"(FLAGS|NCCL|HCCL|FLAGCX|PYTORCH|TORCH|HF|OMP|USE_MODELSCOPE|TOKENIZERS|WANDB|CUDA_DEVICE)_\w+|PYTHONPATH|LD_PRELOAD|LD_LIBRARY_PATH"
)


def not_exported(paper: Paper) -> Iterator[Remark]:
    """Set for the shell alone: the program that should read it does not see it."""
    for script in paper.scripts:
        read = {use.name for use in script.uses}
        exported = {a.name for a in script.assigns if a.exported}
        told: set[str] = set()
        for assign in script.assigns:
            name = assign.name
            if not _ENVIRONMENT.fullmatch(name) or name in read | exported | told or assign.prefix or name in ("PATH",):
                continue
            if not any(job.script is script and job.start > assign.end for job in paper.jobs):
                continue
            told.add(name)
            seen = f"{name} is not exported: unless it was before, the training does not see it"
            fix = Fix(((assign.start, assign.start, "export "),))
            yield warn(assign, seen, f"export {name}=...", fix)


def pipe_status(paper: Paper) -> Iterator[Remark]:
    """A training whose status is that of what it is piped into."""
    for job in paper.jobs:
        command, script = job.command, job.script
        if not command.pipeline or command.last_of_pipe or "pipefail" in command.shell or not job.trains:
            continue
        if b"PIPESTATUS" in script.block.raw:
            continue
        into = next((c for c in script.commands if c.pipeline == command.pipeline and c.last_of_pipe), None)
        name = into.name if into and into.name else "the last command"
        seen = f"the status is that of {name}: a training that failed looks like one that went well"
        yield warn(job, seen, "set -o pipefail", _pipefail(script))


def _pipefail(script: Script) -> Fix | None:
    """A line behind the first one and the comments that follow it."""
    if not script.block.script:
        return None
    raw, at = script.block.raw, 0
    for line in raw.splitlines(keepends=True):
        if not line.startswith(b"#"):
            break
        at += len(line)
    there = script.block.at(at)
    return Fix(((there, there, "set -o pipefail\n"),))


def status_ignored(paper: Paper) -> Iterator[Remark]:
    for job in paper.jobs:
        if job.command.lenient and job.trains:
            yield warn(job, "|| true hides that the training failed", "Take it away.")


def redirect_order(paper: Paper) -> Iterator[Remark]:
    """2>&1 > log leaves the errors on the terminal."""
    for _, command in paper.commands():
        texts = [re.sub(r"\s", "", each.text) for each in command.redirects]
        for number, text in enumerate(texts):
            if (
                text == "2>&1"
                and any(re.match(r"1?>>?[^&]", later) for later in texts[number + 1 :])
                and not command.pipeline
            ):
                seen = "errors go where the output went before this line sent it to the file"
                yield warn(command.redirects[number], seen, "Write > FILE 2>&1.")


def no_errexit(paper: Paper) -> Iterator[Remark]:
    """cd or an installation that failed, and the next line all the same."""
    for script in paper.scripts:
        if not script.block.script:
            continue
        for number, command in enumerate(script.commands):
            later = script.commands[number + 1 :]
            if "errexit" in command.shell or command.guarded or command.function:
                continue
            if bare(command) == "cd" and len(command.words) > 1 and any(bare(each) in _SHELLISH for each in later):
                words = "where this cd fails, the rm below removes from another folder"
                yield warn(command, words, "cd ... || exit 1, or set -e")
                break


def destructive(paper: Paper) -> Iterator[Remark]:
    """chmod 777."""
    for _, command in paper.commands("chmod"):
        for word in unwrapped(command.words)[1:]:
            if re.fullmatch(r"0?777|a\+rwx|ugo\+rwx", word.text):
                yield warn(
                    word, "everybody on the machine may write there", "chmod u+rwX,go+rX, or a group of your own."
                )


_NETWORK = ("curl", "wget", "fetch")
_SHELLS = ("bash", "sh", "zsh", "python", "python3", "sudo", "dash")


def fetched_code(paper: Paper) -> Iterator[Remark]:
    """Code from the network that is run unread: by a pipe, or as the file that was just fetched."""
    for script in paper.scripts:
        fetched: dict[str, Command] = {}
        checked = any(
            bare(c) in ("sha256sum", "md5sum", "gpg", "sha512sum", "shasum", "cosign") for c in script.commands
        )
        for command in script.commands:
            name, words = bare(command), unwrapped(command.words)
            if name in _NETWORK:
                for word in words[1:]:
                    if "://" in word.text:
                        fetched[word.text.rpartition("/")[2].partition("?")[0]] = command
                if command.pipeline and not command.last_of_pipe:
                    into = [c for c in script.commands if c.pipeline == command.pipeline and c.order > command.order]
                    if any(bare(c) in _SHELLS or c.name == "sudo" for c in into):
                        yield warn(
                            command,
                            "what the server sends is run unread, and if it is cut off, half of it",
                            "Fetch it into a file, look, then run it.",
                        )
            target = next(
                (w.text.rpartition("/")[2] for w in words[(name in _SHELLS) :] if not w.text.startswith("-")), ""
            )
            runs = name in _SHELLS or (target and target == name)
            if runs and target in fetched and not checked and name not in _NETWORK:
                yield warn(
                    command,
                    f"{target[:80]} is run as it came, without a look at its checksum",
                    "Compare it with the publisher's sha256sum first.",
                )


def url_command(paper: Paper) -> Iterator[Remark]:
    for _, command in paper.commands():
        if re.match(r"(https?|ftp|git)://", command.words[0].text):
            seen = "an address stands where a command begins: bash looks for a program of this name"
            yield fail(command.words[0], seen, "Make it a comment, or say what is to be done with it.")


def spaced_assignment(paper: Paper) -> Iterator[Remark]:
    yield from spaced_export(paper)
    for _, command in paper.commands():
        words = command.words
        if (
            len(words) > 1
            and words[1].text[:1] == "="
            and words[1].text[:2] != "=="
            and re.fullmatch(r"[A-Za-z_]\w*", words[0].text)
            and words[0].raw == words[0].text
        ):
            if words[0].text in ("test", "[", "expr", "export"):
                continue
            yield fail(
                words[0], f"blanks around =: bash runs a command {words[0].text}", f"{words[0].text}=... without blanks"
            )


_EXPORTED = re.compile(rb"(?m)^[ \t]*(?:export|declare -x)[ \t]+(\w+)=([ \t]+)(?:[\"'$]|[\w./:-]+[ \t]*(?:#.*)?\r?$)")


def spaced_export(paper: Paper) -> Iterator[Remark]:
    """export A= "b": A is empty, and b is taken for another name."""
    for script in paper.scripts:
        for match in _EXPORTED.finditer(script.block.raw):
            start, end = script.block.at(match.start(2)), script.block.at(match.end(2))
            if any(start_ <= start < end_ for start_, end_, _ in script.comments) or _in_heredoc(script, start):
                continue
            name = match[1].decode()
            place = Word("", script.block.at(match.start(1)), end)
            seen = f"a blank behind {name}=: it is empty, and what follows is taken for another variable's name"
            yield fail(place, seen, f"{name}=... without blanks", Fix(((start, end, ""),)))


def _in_heredoc(script: Script, at: int) -> bool:
    return any(each.start <= at < each.end for command in script.commands for each in command.heredocs)


def prompts(paper: Paper) -> Iterator[Remark]:
    for script, command in paper.commands():
        if command.words[0].raw[:2] in ("$", "$ ", "%", ">>") and script.block.whole:
            yield fail(command.words[0], "the prompt of an example stands in the script", "Take it away.")


_SECRET_NAME = re.compile(r"(?i)(^|_)(token|secret|passw(or)?d|api_?key|access_?key(_id)?|private_?key|credentials?)$")
_SECRET_SHAPE = re.compile(
    r"\b(gh[pousr]_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|glpat-[\w-]{20,})\b"
)
_PLACEHOLDER = re.compile(
    r"(?i)^$|your|xxx|\.\.\.|<.*>|^\*+$|example|changeme|placeholder|token$|^none$|^null$|^(true|false|\d{1,3})$"
)


# Programs that take a secret as a word of its own, or behind a short option: (program, words before it, the option).
_HANDED = (
    (("wandb", "login"), ""),
    (("swanlab", "login"), "-k"),
    (("docker", "login"), "-p"),
    (("podman", "login"), "-p"),
    (("sshpass",), "-p"),
)


def _handed_over(command: Command) -> Word | None:
    """The word that is a secret by its place; None where there is none, or nobody knows it."""
    words = unwrapped(command.words)
    texts = [word.text for word in words]
    for names, option in _HANDED:
        if (bare(command), *texts[1 : len(names)]) != names:
            continue
        rest = words[len(names) :]
        for n, word in enumerate(rest):
            before = rest[n - 1].text if n else ""
            placed = before == option if option else not word.text.startswith("-") and before != "--host"
            if placed and word.known and not word.soft and len(word.text) > 2 and not _PLACEHOLDER.search(word.text):
                return word
    return None


def secrets(paper: Paper) -> Iterator[Remark]:
    """Never with the value in the sentence."""
    do = "Read it from a file that only you may read; launchers write their environment into logs."
    for script in paper.scripts:
        spots: dict[int, Word] = {}
        for assign in script.assigns:
            text = assign.word.text
            if (
                _SECRET_NAME.search(assign.name)
                and assign.word.known
                and not assign.word.soft
                and not _PLACEHOLDER.search(text)
            ):
                spots[assign.start] = Word(assign.name, assign.start, assign.end)
        for command in script.commands:
            before = ""
            for word in command.words:
                option = re.fullmatch(r"--?([\w-]+)", before)
                named = option and _SECRET_NAME.search(option[1].replace("-", "_")) and not word.text.startswith("-")
                if (
                    (named and word.known and len(word.text) > 5 and not _PLACEHOLDER.search(word.text))
                    or _SECRET_SHAPE.search(word.text)
                    or re.search(r"://[^/\s:@]+:[^/\s:@]{3,}@", word.text)
                    or re.search(r"(?i)^authorization: *(bearer|basic|token) +[\w.~+/=-]{8,}$", word.text)
                ):
                    spots[word.start] = Word("", word.start, word.end)
                before = word.text
            if (handed := _handed_over(command)) is not None:
                spots[handed.start] = Word("", handed.start, handed.end)
        for at in sorted(spots):
            yield warn(spots[at], "a secret stands in the script, for everyone who gets to read it", do)
