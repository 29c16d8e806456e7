"""Run `envcheck train` again with the options of an earlier run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.fleet import argv


def resume_run(train: click.Command, name: str) -> int:
    """Repeat the run's job from its last checkpoint; the options of the current command line override the run's."""
    from launch.runs import run_index

    run = run_index.find_run(name, None)
    given = argv.collect_given(("resume", "extra"))
    _words, text = argv.build_words(given, {})
    return _repeat_run(train, run.folder, ["--resume", str(run.id), *_split_words(text)])


def rerun_run(train: click.Command, folder: Path, more: Sequence[str] = ()) -> int:
    """Repeat the run in this folder."""
    return _repeat_run(train, folder, list(more))


def _split_words(text: str) -> list[str]:
    import shlex

    return shlex.split(text)


def _repeat_run(train: click.Command, folder: Path, more: Sequence[str]) -> int:
    from launch.runs import request_note

    note = request_note.read_note(folder)
    if not note.words:
        raise UsageError(
            _("the options of run {id} are not known on this machine", id=folder.name),
            _("repeat its command with `envcheck train`: see `request` in {folder}/run.json", folder=folder),
        )
    at = note.words.index("--") if "--" in note.words else len(note.words)
    kept = drop_overridden(train, note.words[:at], more)
    return run_words(train, note.typed_in, [*kept, *more, *note.words[at:]])


def drop_overridden(train: click.Command, words: Sequence[str], more: Sequence[str]) -> list[str]:
    """Return the words without the options of one value that are given in `more` as well."""
    known = [param for param in train.params if isinstance(param, click.Option) and not param.multiple]
    options = {name: param for param in known for name in (*param.opts, *param.secondary_opts)}
    overridden = {options[name].name for word in more if (name := word.partition("=")[0]) in options}
    kept, left = [], list(words)
    while left:
        word = left.pop(0)
        option = options.get(word.partition("=")[0])
        taken = [left.pop(0)] if option and not option.is_flag and "=" not in word and left else []
        if option is None or option.name not in overridden:
            kept += [word, *taken]
    return kept


def run_words(train: click.Command, typed_in: Path | None, words: Sequence[str]) -> int:
    """Run `envcheck train` with these words in the folder where they were typed; return its exit code."""
    if typed_in and typed_in.is_dir():
        os.chdir(typed_in)  # the paths in the words are relative to this folder
    with train.make_context("train", list(words), parent=click.get_current_context().parent) as context:
        return int(train.invoke(context) or 0)
