"""Messages of `envcheck train` before a start: options given twice, commands to paste, names to type."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import click
import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.cli.commands.doctor import doctor
from envcheck.cli.commands.provision import provision
from envcheck.core import language
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.job.repeat_options import format_doctor_options, format_job_options
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve_method
from installers.recipes import catalogue
from launch.infer import chat_kits
from launch.targets.train_request import TrainRequest
from launch.watching import choose_monitor

SEEN = ("train", "--dry-run", "--model", "21b", "--device", "nvidia")
TWICE = (
    ("--method", "sft", "--method", "lora"),
    ("--method=lora", "--device", "iluvatar"),
    ("--method", "lora", "--steps", "5", "--steps", "6"),
    ("--method", "lora", "--runs", "a", "--runs", "b"),
)


@pytest.mark.parametrize("words", TWICE, ids=" ".join)
def test_conflicting_values_are_refused(words: tuple[str, ...]) -> None:
    """A single-value option given twice with different values is an error; click would use the last."""
    err = CliRunner().invoke(main.main, [*SEEN, *words]).exception

    assert isinstance(err, UsageError)
    assert re.fullmatch(r"--\w+ is given 2 times, but accepts one value", err.message)


def test_equal_values_and_options_after_the_dashes_pass() -> None:
    """Accepted: the same value twice, repeatable options, and anything after --."""
    several = ("--set", "seed=1", "--set", "max_steps=60", "--", "--weight_decay", "0", "--save_steps", "9")
    done = CliRunner().invoke(main.main, [*SEEN, "--method", "lora", "--method", "lora", *several])

    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert "\nernie-21b-nvidia, lora" in done.output


@pytest.mark.parametrize("recipe", catalogue.load_all(None), ids=lambda recipe: recipe.name)
def test_the_command_that_installs_is_provisions(recipe: catalogue.Recipe) -> None:
    """`provision` accepts the printed options of every job and chat and selects that recipe."""
    for job in (*recipe.jobs, *(replace(job, role="") for job in chat_kits.build_chat_jobs(recipe))):
        words = shlex.split(format_job_options(TrainRequest(), recipe, job))
        context = provision.make_context("provision", words)
        said = context.params

        assert isinstance(context, click.Context)
        found = catalogue.find_recipe(catalogue.load_all(None), said["recipe"])
        assert catalogue.check_agreement(found, None, said["method"], said["device"], None) == recipe


@pytest.mark.parametrize("recipe", catalogue.load_all(None), ids=lambda recipe: recipe.name)
def test_the_command_that_examines_is_doctors(recipe: catalogue.Recipe) -> None:
    """`doctor` accepts the printed options of every job and selects that job."""
    for job in recipe.jobs:
        said = doctor.make_context("doctor", shlex.split(format_doctor_options(recipe, job, None))).params
        names = ("model", "method", "framework", "variant", "node_role", "device")
        request = JobRequest(**{name: said[name] for name in names})
        found, meant = resolve_method(request, catalogue.load_all(None), Facts())

        assert (found, meant) == (recipe, job)


def test_names_to_type_stay_in_chinese(chinese: None) -> None:
    """Names of stop rules are not translated."""
    with pytest.raises(UsageError) as caught:
        choose_monitor.parse_rules(("foo",), ())

    assert language.translate(caught.value.next_step or "") == (
        "可用：cpu、loss、stalled、launcher、health、memory、flat、uniform、gradients、slow_rank、throughput、data"
    )
