"""What `envcheck train` says before anything starts: what is said twice, commands to paste, names to type."""

from __future__ import annotations

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
from launch.infer import kits
from launch.targets.request import TrainRequest
from launch.watching import choose_monitor

SEEN = ("train", "--dry-run", "--model", "21b", "--device", "nvidia")
TWICE = (
    ("--method", "sft", "--method", "lora"),
    ("--method=lora", "--device", "iluvatar"),
    ("--method", "lora", "--steps", "5", "--steps", "6"),
    ("--method", "lora", "--runs", "a", "--runs", "b"),
)


@pytest.mark.parametrize("words", TWICE, ids=" ".join)
def test_what_is_said_twice_is_refused(words: tuple[str, ...]) -> None:
    """Options of one value that are said twice, and not alike, name themselves; click would keep the last."""
    err = CliRunner().invoke(main.main, [*SEEN, *words]).exception

    assert isinstance(err, UsageError)
    assert "is said 2 times; only the last would count" in err.message


def test_what_is_said_twice_alike_or_behind_the_dashes_passes() -> None:
    """The same value is no doubt, several values are for options of several, and what stands behind -- is another's."""
    several = ("--set", "seed=1", "--set", "max_steps=60", "--", "--weight_decay", "0", "--save_steps", "9")
    done = CliRunner().invoke(main.main, [*SEEN, "--method", "lora", "--method", "lora", *several])

    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert "\nernie-21b-nvidia, lora" in done.output


@pytest.mark.parametrize("recipe", catalogue.load_all(None), ids=lambda recipe: recipe.name)
def test_the_command_that_installs_is_provisions(recipe: catalogue.Recipe) -> None:
    """Of each job, and of a talk that the recipe does not hold: provision has each option, and takes it for that
    recipe."""
    for job in (*recipe.jobs, *(replace(job, role="") for job in kits.jobs(recipe))):
        words = shlex.split(format_job_options(TrainRequest(), recipe, job))
        context = provision.make_context("provision", words)
        said = context.params

        assert isinstance(context, click.Context)
        found = catalogue.by_name(catalogue.load_all(None), said["recipe"])
        assert catalogue.agreeing(found, None, said["method"], said["device"], None) == recipe


@pytest.mark.parametrize("recipe", catalogue.load_all(None), ids=lambda recipe: recipe.name)
def test_the_command_that_examines_is_doctors(recipe: catalogue.Recipe) -> None:
    """Of each job: doctor takes the options, and means that recipe's job of that name, variant and role."""
    for job in recipe.jobs:
        said = doctor.make_context("doctor", shlex.split(format_doctor_options(recipe, job, None))).params
        names = ("model", "method", "framework", "variant", "node_role", "device")
        request = JobRequest(**{name: said[name] for name in names})
        found, meant = resolve_method(request, catalogue.load_all(None), Facts())

        assert (found, meant) == (recipe, job)


def test_names_to_type_stay_in_chinese(chinese: None) -> None:
    """The rules that there are, are what one types, whatever the language."""
    with pytest.raises(UsageError) as caught:
        choose_monitor.parse_rules(("foo",), ())

    assert language.say(caught.value.next_step or "") == "现有 cpu, loss, stalled, launcher, health, memory"
