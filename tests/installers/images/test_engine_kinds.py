"""Each kind of engine: how it is recognised, what it lacks, and that the plan names this before a pull."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from installers.images import engine_kinds, engine_problems
from installers.images.docker_engine import DockerEngine, parse_engine
from installers.images.engine_kinds import DOCKER, DOCKER_ROOTLESS, PODMAN, PODMAN_ROOTLESS, EngineKind
from installers.recipes.container_spec import ContainerSpec, PublishedPort, Ulimit
from installers.steps.container_state import ContainerState
from installers.steps.target_state import DesiredState
from tests.installers.steps import test_step_kinds

PLAIN = ContainerSpec(name="box", image="a@sha256:1")
WHOLE = replace(
    PLAIN, privileged=True, network="host", pid="host", runtime="nvidia", cdi=("vendor.com/gpu=0",),
    ports=(PublishedPort("", 80, 80),), ulimits=(Ulimit("memlock", -1, -1),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("info", "headers", "kind"),
    (
        ({}, {}, DOCKER),
        ({"SecurityOptions": ["name=seccomp,profile=default"]}, {}, DOCKER),
        ({"SecurityOptions": ["name=seccomp", "name=rootless"]}, {}, DOCKER_ROOTLESS),
        ({}, {"Libpod-Api-Version": "4.3.1"}, PODMAN),
        ({"BuildahVersion": "1.28", "Rootless": True}, {}, PODMAN_ROOTLESS),
        ({"SecurityOptions": 7, "Rootless": "no"}, {}, DOCKER),
    ),
)
def test_which_kind(info: dict[str, object], headers: dict[str, str], kind: EngineKind) -> None:
    """It follows from docker info and the headers of a ping."""
    assert parse_engine("unix:///s", headers, info).kind is kind


@pytest.mark.parametrize(
    ("kind", "missing"),
    (
        (DOCKER, []),
        (PODMAN, ["CDI devices", "a vendor's runtime"]),
        (
            DOCKER_ROOTLESS,
            [
                "all privileges",
                "the host's network",
                "the host's processes",
                "unlimited locked memory",
                "ports below 1024",
            ],
        ),
        (
            PODMAN_ROOTLESS,
            [
                "all privileges",
                "the host's processes",
                "unlimited locked memory",
                "CDI devices",
                "a vendor's runtime",
                "ports below 1024",
            ],
        ),
    ),
)
def test_what_it_lacks(kind: EngineKind, missing: list[str]) -> None:
    """Only obstacles to this container are listed, each with a next step."""
    gaps = list(engine_kinds.find_gaps(kind, WHOLE))

    assert [str(why).partition(" a container ")[2].partition(":")[0] for why, _ in gaps] == missing
    assert all(step for _, step in gaps)
    assert list(engine_kinds.find_gaps(kind, PLAIN)) == []


def test_an_obstacle_of_the_plan() -> None:
    """A gap is an obstacle, so nothing is pulled."""
    drawn = replace(
        test_step_kinds.DRAWN, container=replace(test_step_kinds.DRAWN.container, spec=replace(PLAIN, privileged=True))
    )
    state = ContainerState(DockerEngine("", kind=PODMAN_ROOTLESS), None, "python3", drawn)
    desired = DesiredState(test_step_kinds.RECIPE, test_step_kinds.Supply(test_step_kinds.RECIPE))

    assert "rootless Podman cannot give a container all privileges" in str(
        next(iter(state.find_obstacles(desired, ()))).why
    )


@pytest.mark.parametrize("program", ("podman", "nerdctl", "apptainer", "singularity"))
def test_another_program(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only another program is installed, it is refused by its name, with what helps."""
    (tmp_path / program).write_text("#!/bin/sh\n")
    (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/nowhere")
    monkeypatch.setattr(engine_problems, "_has_daemon", lambda: False)
    found = engine_problems._absent_problem(engine_problems.DEFAULT.removeprefix("unix://"))

    assert program in str(found.message).lower()
    assert found.next_step


def test_too_old() -> None:
    """Each kind has its own oldest version."""
    assert engine_problems.check_version("4.3.1", PODMAN) is None
    assert engine_problems.check_version("20.10.24+dfsg1", DOCKER) is None
    assert "Podman 3.0.1 is too old" in str(engine_problems.check_version("3.0.1", PODMAN))
