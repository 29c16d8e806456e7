"""Which jobs a request for other nodes selects: the same for Slurm and Kubernetes, and never one of several."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from launch.backends.k8s import k8s_options
from launch.backends.k8s.k8s_options import K8sOptions
from launch.backends.roles import resolve_roles
from launch.targets.train_request import TrainRequest

LORA = TrainRequest(model="21b", method="lora")
MIXED = replace(LORA, model=None, recipe="ernie-21b-hetero")


def test_a_request_that_several_recipes_fit_is_refused() -> None:
    """The job over two vendors is not considered unless its recipe is named."""
    with pytest.raises(UsageError, match="jobs fit this request") as refused:
        resolve_roles(LORA, Facts())

    assert "--device iluvatar" in refused.value.next_step
    with pytest.raises(UsageError, match="jobs fit this request"):
        k8s_options.build_pod_groups(LORA, K8sOptions(name="job"))


@pytest.mark.parametrize("device", ["auto", "iluvatar", "nvidia"])
def test_a_job_over_mixed_cards_has_all_its_roles(device: str) -> None:
    """All roles by rank, whichever of its devices the request names."""
    jobs = resolve_roles(replace(MIXED, device=device), Facts())

    assert [(job.method.rank, job.device) for job in jobs] == [(0, "nvidia"), (1, "iluvatar")]


@pytest.mark.parametrize("device", ["npu", "iluvatar", "nvidia"])
def test_every_other_job_is_one(device: str) -> None:
    """A job without roles is one job for all nodes."""
    (job,) = resolve_roles(replace(LORA, device=device), Facts())

    assert (job.device, job.method.role) == (device, "")
