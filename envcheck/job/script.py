"""A command as a shell script that bash -n and shellcheck accept, and that has none of the traps of pasted ones."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from envcheck.job.command import BLANKS, TrainingCommand, container_rows, lines, shell


def script(command: TrainingCommand) -> str:
    """The script; what is not known yet is asked for as an environment variable before anything starts."""
    parts = (_head, _asked, _run_folder, _folder, _needed, _make_folders, _files, _environment, _start)
    blocks = ("\n".join(part(command)) for part in parts)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, 110, break_long_words=False, break_on_hyphens=False)]


def _head(command: TrainingCommand) -> Iterator[str]:
    yield "#!/usr/bin/env bash"
    yield from _comment(command.title)
    yield f"# Written by envcheck {command.verb} --dry-run --as-script."
    for caution in command.caution:
        yield from _comment(f"Note: {caution}")
    if command.container:
        yield "#"
        yield "# It runs inside the recipe's container, which is started and then entered by:"
        yield from (f"#   {row}" for row in container_rows(command))
        if "--name" in command.container:
            name = command.container[command.container.index("--name") + 1]
            yield f"#   docker exec --interactive --tty {name} bash -l"
    yield "set -euo pipefail"


def _asked(command: TrainingCommand) -> Iterator[str]:
    asked = [BLANKS[token] for token in command.missing if not BLANKS[token].default]
    if asked:
        yield "# Only you know these; they are asked for before anything starts."
    for blank in asked:
        yield f': "${{{blank.variable}:?set {blank.variable}: {blank.meaning}}}"'
    if command.nodes > 1:
        yield "# With any of these wrong, the launcher waits for ever and says nothing."
        yield 'wrong() { printf \'%s: %s\\n\' "$0" "$1" >&2; exit 2; }'
        yield from (_reachable(BLANKS[t].variable) for t in ("master", "host") if t in command.missing)
        yield from _rank(command)


def _reachable(variable: str) -> str:
    words = f'"{variable} is ${variable}, which means each node itself"'
    return f'case "${variable}" in localhost | 127.* | ::1) wrong {words} ;; esac'


def _rank(command: TrainingCommand) -> Iterator[str]:
    if "rank" in command.missing:
        words = f'"NODE_RANK is $NODE_RANK, and the nodes are 0 to {command.nodes - 1}"'
        yield f"""case "$NODE_RANK" in *[!0-9]*) wrong {words} ;; esac"""
        yield f'[ "$NODE_RANK" -lt {command.nodes} ] || wrong {words}'


def _run_folder(command: TrainingCommand) -> Iterator[str]:
    made = [(token, BLANKS[token]) for token in command.missing if BLANKS[token].default]
    if not made:
        return
    if any("RUN_DIR" in blank.default for _, blank in made):
        node = "-node$NODE_RANK" if "rank" in command.missing else ""
        name = re.sub(r"[^\w.-]+", "-", command.title.partition(":")[0]).strip("-")
        yield "# A new folder for each run and node: the launcher appends to old logs, and nothing is removed here."
        yield f"runs={shell(command.runs)}" if command.runs else 'runs="$PWD/runs"'
        yield f'RUN_DIR="${{RUN_DIR:-$runs/$(date +%Y%m%d-%H%M%S)-{name}{node}}}"'
    for _, blank in made:
        yield f'{blank.variable}="${{{blank.variable}:-{blank.default}}}"'


def _make_folders(command: TrainingCommand) -> Iterator[str]:
    folders = [f'"${BLANKS[token].variable}"' for token in ("output", "config") if token in command.missing]
    if folders:
        yield f"mkdir -p -- {' '.join(folders)}"
    if "log_dir" in command.missing:
        yield "# Launchers write there what they were told, variables with secrets as well."
        yield f'(umask 077 && mkdir -p -- "${BLANKS["log_dir"].variable}")'


def _files(command: TrainingCommand) -> Iterator[str]:
    """Nothing in them is expanded: the mark of their end is quoted, and stands in none of them."""
    for path, text in command.files.items():
        end = next(word for word in ("END_OF_FILE", *(f"END_OF_FILE_{n}" for n in range(10**6))) if word not in text)
        yield f"cat > {shell(path)} <<'{end}'"
        yield text.removesuffix("\n")
        yield end


def _needed(command: TrainingCommand) -> Iterator[str]:
    files = [shell(path) for path in (*command.scripts, *command.requires)]
    if files:
        yield "# Without these files the job dies late and with another message."
        yield 'need() { [ -e "$1" ] || { printf \'%s: %s is missing\\n\' "$0" "$1" >&2; exit 1; }; }'
        yield from (f"need {file}" for file in files)


def _environment(command: TrainingCommand) -> Iterator[str]:
    if command.unset:
        yield "# Left-over variables of job platforms and earlier runs win over the launcher's own options."
        rows = textwrap.wrap(f"unset -v {' '.join(command.unset)}", 112, break_long_words=False)
        yield " \\\n  ".join(rows)
    if command.scripts:
        yield "# The toolkits' own set-up; it reads variables that may not exist, hence without -u and -e."
        yield "set +eu"
        for path in command.scripts:
            yield "# shellcheck source=/dev/null"
            yield f"source {shell(path)}"
        yield "set -eu"
    yield from (f"export {name}={shell(text)}" for name, text in command.environment.items())
    for name, text in command.prepend.items():
        yield f'export {name}={shell(text)}"${{{name}:+:${name}}}"'


def _folder(command: TrainingCommand) -> Iterator[str]:
    if command.workdir:
        yield "# The paths below start here."
        yield f"cd -- {shell(command.workdir)}"


def _start(command: TrainingCommand) -> Iterator[str]:
    yield "# exec: the status of the script is the status of the job, not that of a pipe."
    rows = [" ".join(map(shell, row)) for row in lines(command)]
    yield " \\\n  ".join([f"exec {rows[0]}", *rows[1:]])
