"""Render a command as a shell script that passes bash -n and shellcheck."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from envcheck.job.command import BLANKS, TrainingCommand, container_rows, format_lines, shell_quote


def render_script(command: TrainingCommand) -> str:
    """Return the script; values without a default are required as environment variables before anything starts."""
    parts = (
        _render_head,
        _render_questions,
        _render_run_folder,
        _render_workdir,
        _render_required_files,
        _render_mkdir,
        _render_files,
        _render_environment,
        _render_start,
    )
    blocks = ("\n".join(part(command)) for part in parts)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _render_comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, 110, break_long_words=False, break_on_hyphens=False)]


def _render_head(command: TrainingCommand) -> Iterator[str]:
    yield "#!/usr/bin/env bash"
    yield from _render_comment(command.title)
    yield f"# Written by envcheck {command.verb} --dry-run --as-script."
    for caution in command.caution:
        yield from _render_comment(f"Note: {caution}")
    if command.container:
        yield "#"
        yield "# Run it inside the recipe's container. Start and enter the container with:"
        yield from (f"#   {row}" for row in container_rows(command))
        if "--name" in command.container:
            name = command.container[command.container.index("--name") + 1]
            yield f"#   docker exec --interactive --tty {name} bash -l"
    yield "set -euo pipefail"


def _render_questions(command: TrainingCommand) -> Iterator[str]:
    asked = [BLANKS[token] for token in command.missing if not BLANKS[token].default]
    if asked:
        yield "# Required: set these variables before you run the script."
    for blank in asked:
        yield f': "${{{blank.variable}:?set {blank.variable}: {blank.meaning}}}"'
    if command.nodes > 1:
        yield "# With a wrong value here, the launcher hangs without a message."
        yield 'wrong() { printf \'%s: %s\\n\' "$0" "$1" >&2; exit 2; }'
        yield from (_render_loopback_test(BLANKS[t].variable) for t in ("master", "host") if t in command.missing)
        yield from _render_rank_test(command)


def _render_loopback_test(variable: str) -> str:
    words = f'"{variable} is ${variable}, a loopback address: use one that the other nodes can reach"'
    return f'case "${variable}" in localhost | 127.* | ::1) wrong {words} ;; esac'


def _render_rank_test(command: TrainingCommand) -> Iterator[str]:
    if "rank" in command.missing:
        words = f'"NODE_RANK is $NODE_RANK: expected 0 to {command.nodes - 1}"'
        yield f"""case "$NODE_RANK" in *[!0-9]*) wrong {words} ;; esac"""
        yield f'[ "$NODE_RANK" -lt {command.nodes} ] || wrong {words}'


def _render_run_folder(command: TrainingCommand) -> Iterator[str]:
    made = [(token, BLANKS[token]) for token in command.missing if BLANKS[token].default]
    if not made:
        return
    if any("RUN_DIR" in blank.default for _, blank in made):
        node = "-node$NODE_RANK" if "rank" in command.missing else ""
        name = re.sub(r"[^\w.-]+", "-", command.title.partition(":")[0]).strip("-")
        yield "# A new folder for each run and node: the launcher appends to existing logs."
        yield f"runs={shell_quote(command.runs)}" if command.runs else 'runs="$PWD/runs"'
        yield f'RUN_DIR="${{RUN_DIR:-$runs/$(date +%Y%m%d-%H%M%S)-{name}{node}}}"'
    for _, blank in made:
        yield f'{blank.variable}="${{{blank.variable}:-{blank.default}}}"'


def _render_mkdir(command: TrainingCommand) -> Iterator[str]:
    folders = [f'"${BLANKS[token].variable}"' for token in ("output", "config") if token in command.missing]
    if folders:
        yield f"mkdir -p -- {' '.join(folders)}"
    if "log_dir" in command.missing:
        yield "# Launchers log their environment there, which may contain secrets."
        yield f'(umask 077 && mkdir -p -- "${BLANKS["log_dir"].variable}")'


def _render_files(command: TrainingCommand) -> Iterator[str]:
    """Yield here-documents; the quoted delimiter, absent from the content, prevents expansion."""
    for path, text in command.files.items():
        end = next(word for word in ("END_OF_FILE", *(f"END_OF_FILE_{n}" for n in range(10**6))) if word not in text)
        yield f"cat > {shell_quote(path)} <<'{end}'"
        yield text.removesuffix("\n")
        yield end


def _render_required_files(command: TrainingCommand) -> Iterator[str]:
    files = [shell_quote(path) for path in (*command.scripts, *command.requires)]
    if files:
        yield "# Without these files the job fails late, with an unrelated message."
        yield 'need() { [ -e "$1" ] || { printf \'%s: %s is missing\\n\' "$0" "$1" >&2; exit 1; }; }'
        yield from (f"need {file}" for file in files)


def _render_environment(command: TrainingCommand) -> Iterator[str]:
    if command.unset:
        yield "# Variables left by job platforms and earlier runs override the launcher's options."
        rows = textwrap.wrap(f"unset -v {' '.join(command.unset)}", 112, break_long_words=False)
        yield " \\\n  ".join(rows)
    if command.scripts:
        yield "# Set-up scripts of the toolkits; they read unset variables, so -e and -u are off."
        yield "set +eu"
        for path in command.scripts:
            yield "# shellcheck source=/dev/null"
            yield f"source {shell_quote(path)}"
        yield "set -eu"
    yield from (f"export {name}={shell_quote(text)}" for name, text in command.environment.items())
    for name, text in command.prepend.items():
        yield f'export {name}={shell_quote(text)}"${{{name}:+:${name}}}"'


def _render_workdir(command: TrainingCommand) -> Iterator[str]:
    if command.workdir:
        yield "# Relative paths below start here."
        yield f"cd -- {shell_quote(command.workdir)}"


def _render_start(command: TrainingCommand) -> Iterator[str]:
    yield "# exec: the script exits with the status of the job."
    rows = [" ".join(map(shell_quote, row)) for row in format_lines(command)]
    yield " \\\n  ".join([f"exec {rows[0]}", *rows[1:]])
