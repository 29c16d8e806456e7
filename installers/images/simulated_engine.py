"""The container engine of a simulated machine: its facts are enough for a plan, and nothing can run in it."""

from __future__ import annotations

from envcheck.core.facts import Facts
from envcheck.core.messages import _, verbatim
from envcheck.job.local_facts import read_architecture
from installers.images import engine_problems
from installers.images.docker_engine import DockerEngine, read_address
from installers.images.engine_problems import EngineProblem
from installers.plan.requirement import Obstacle

NOTE = _("this machine is simulated: the image in the registry and the engine's disk space were not checked")
REFUSAL = Obstacle(_("this machine is simulated: its container engine runs nothing"), _("add --dry-run"))


def inspect_simulated_engine(facts: Facts) -> DockerEngine:
    """Return the engine of the simulated machine with these facts, from which `doctor` also judges it."""
    found, url = facts.engine, read_address()
    if found is None:
        return DockerEngine(url, engine_problems.make_absent_problem())
    if found.error is not None:
        message = _("the container engine is not usable: {error}", error=verbatim(found.error))
        return DockerEngine(url, EngineProblem("other", message, _("run `envcheck doctor --only engine`")))
    return DockerEngine(
        url,
        version=found.version or "",
        architecture=read_architecture(facts),
        root=found.root_dir or "",
        runtimes=found.runtimes,
        cdi=found.cdi,
    )
