"""What a training in a container gets from the user's shell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.core.facts import Facts
from installers.recipes.recipe import RecipeContainer
from launch.run.container_stage import select_network_variables
from tests.launch.gates.gate_parts import RECIPE

SHELL = {"BKCL_RDMA_NICS": "ens1,ens2", "BKCL_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": "mlx5_0", "BKCL_TREE": "1"}


@pytest.mark.parametrize(
    ("device", "network", "names"),
    [
        ("xpu", "host", {"BKCL_RDMA_NICS", "BKCL_SOCKET_IFNAME"}),
        ("nvidia", "host", {"NCCL_IB_HCA"}),
        ("npu", "host", set()),
        ("xpu", "bridge", set()),
    ],
)
def test_interfaces_of_the_shell_reach_the_container(device: str, network: str, names: set[str]) -> None:
    """The vendor's variables that name interfaces are passed on, if the container has the host's network."""
    recipe = replace(RECIPE, device=device, container=RecipeContainer("box", network=network))

    found = select_network_variables(recipe, Facts(environment=SHELL))

    assert found == {name: SHELL[name] for name in names}
