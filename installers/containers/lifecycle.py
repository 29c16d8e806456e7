"""Inspect, create, start, check and remove containers through the engine's API; only those with envcheck's label."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.core.errors import EnvcheckError, StepError, describe_os_error
from envcheck.core.messages import Message, _, join, verbatim
from envcheck.core.secrets import redact_text
from installers.containers.compare import (
    ContainerAction,
    ContainerStatus,
    compare_container,
    decide_action,
    explain_refusal,
)
from installers.containers.inspect_document import EngineDefaults, parse_defaults
from installers.recipes.container_spec import RECIPE_LABEL, ContainerSpec
from installers.targets.container_errors import call_engine

if TYPE_CHECKING:
    from docker import APIClient

# After this time a shell without stdin has exited: in 72 runs on a machine with ten times its load, `docker inspect`
# always showed the exit.  A container that exits later is detected by the next step.
SETTLE_S = 0.05
BY_HAND = _("run `envcheck provision --as-script` to print the command that creates the container")


def inspect_container(api: APIClient, name: str) -> Mapping[str, Any] | None:
    """Return `docker inspect` of the container with this name or id; None if there is none.

    The engine also accepts the beginning of an id; such a match is ignored.
    """
    from docker.errors import NotFound

    try:
        found: Mapping[str, Any] = call_engine(lambda: api.inspect_container(name))
    except StepError as err:
        if isinstance(err.__cause__, NotFound):
            return None
        raise
    return found if name in (str(found.get("Name")).removeprefix("/"), found.get("Id")) else None


def read_defaults(api: APIClient, image: str) -> EngineDefaults:
    """Return the values that the engine and the image set."""
    return call_engine(lambda: parse_defaults(api.inspect_image(image), api.info()))  # type: ignore[no-untyped-call]


def read_status(api: APIClient, spec: ContainerSpec, *, recreate: bool = False) -> ContainerStatus:
    """Return the action for the container with the specification's name; the image must be in the engine."""
    found = inspect_container(api, spec.name)
    return decide_action(found, spec, read_defaults(api, spec.image) if found else None, recreate=recreate)


def ensure_running(api: APIClient, spec: ContainerSpec, *, recreate: bool = False) -> str:
    """Create or start the container, check that it runs as specified, and return its id.

    A container created by this call is removed again if anything fails.
    """
    status = read_status(api, spec, recreate=recreate)
    if status.obstacle:
        raise refusal_error(status)
    if status.action is ContainerAction.RECREATE:
        remove_container(api, spec.name)
    created = status.action in (ContainerAction.CREATE, ContainerAction.RECREATE)
    identity = create_container(api, spec) if created else str((inspect_container(api, spec.name) or {})["Id"])
    try:
        call_engine(lambda: api.start(identity))
        if reason := explain_mismatch(api, spec):
            raise StepError(reason, BY_HAND if created else verbatim(f"docker logs {spec.name}"))
    except BaseException:
        if created:
            remove_container(api, identity)
        raise
    return identity


def refusal_error(now: ContainerStatus) -> EnvcheckError:
    """Return the obstacle as an error, with the differing fields."""
    assert now.obstacle
    return EnvcheckError(explain_refusal(now), now.obstacle.remedy)


def create_container(api: APIClient, spec: ContainerSpec) -> str:
    """Create the container without starting it; return its id."""
    made = call_engine(
        lambda: api.create_container(
            spec.image,
            command=list(spec.command),
            name=spec.name,
            working_dir=spec.workdir or None,
            environment=dict(spec.environment),
            labels=spec.labels,
            ports=[(port.container, port.protocol) for port in spec.ports],
            host_config=_build_host_config(api, spec),
            tty=spec.tty,
            stdin_open=spec.stdin,
            detach=True,
        )
    )
    return str(made["Id"])


def explain_mismatch(api: APIClient, spec: ContainerSpec) -> Message | None:
    """Return why the container does not run as specified; None if it does."""
    until = time.monotonic() + SETTLE_S
    expected = read_defaults(api, spec.image)
    time.sleep(max(0.0, until - time.monotonic()))
    found = inspect_container(api, spec.name)
    if found is None:
        return _("container {name} no longer exists", name=spec.name)
    state = found.get("State") or {}
    if state.get("Paused"):
        return _("container {name} is paused; run `docker unpause {name}`", name=spec.name)
    if not state.get("Running"):
        status, last = state.get("ExitCode"), _last_log_line(api, spec)
        if not last:
            return _("container {name} exited immediately with status {status}", name=spec.name, status=status)
        return _(
            "container {name} exited immediately with status {status}: {last_line}",
            name=spec.name,
            status=status,
            last_line=last,
        )
    differing = compare_container(found, spec, expected)
    if differing:
        return _(
            "the engine created container {name} with other settings than requested: {differing}",
            name=spec.name,
            differing=join(", ", (d.field for d in differing)),
        )
    return None


def _last_log_line(api: APIClient, spec: ContainerSpec) -> str:
    """Return the last line of the container's log, which is removed with the container; "" if it is empty."""
    log = bytes(call_engine(lambda: api.logs(spec.name, tail=1)))[:2000].decode("utf-8", "replace")
    return redact_text("".join(each for each in log.strip() if each.isprintable())[:300])


def remove_container(api: APIClient, name: str) -> bool:
    """Stop and remove a container; return False if there is none.  Raises EnvcheckError if it is not envcheck's.

    It is removed by force: a shell as first process ignores SIGTERM, so a stop would only wait ten seconds before it
    kills the container.
    """
    found = inspect_container(api, name)
    if found is None:
        return False
    if _lacks_label(found):
        raise EnvcheckError(
            _("container {name} was not created by envcheck and is left unchanged", name=name),
            verbatim(f"docker inspect {name}"),
        )
    identity = str(found["Id"])
    call_engine(lambda: api.remove_container(identity, v=True, force=True))
    return True


def is_foreign(api: APIClient, name: str) -> bool:
    """Return whether a container of this name exists that envcheck did not create."""
    found = inspect_container(api, name)
    return found is not None and _lacks_label(found)


def _lacks_label(found: Mapping[str, Any]) -> bool:
    return not ((found.get("Config") or {}).get("Labels") or {}).get(RECIPE_LABEL)


def make_folders(folders: Iterable[str]) -> tuple[str, ...]:
    """Create folders with their parents; return the created ones in order, for an undo to remove in reverse."""
    made: list[str] = []
    for folder in folders:
        missing = [path for path in (Path(folder), *Path(folder).parents) if not path.exists()]
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise StepError(
                _("cannot create {folder}: {reason}", folder=folder, reason=describe_os_error(err)),
                _("run the command in a folder that you can write to"),
            ) from err
        made += [str(path) for path in reversed(missing)]
    return tuple(made)


def _build_host_config(api: APIClient, spec: ContainerSpec) -> Any:
    from docker.types import DeviceRequest, Mount, Ulimit

    bindings: dict[str, list[tuple[str, int]]] = {}
    for port in spec.ports:
        bindings.setdefault(f"{port.container}/{port.protocol}", []).append((port.address, port.host))
    given: dict[str, Any] = {
        "mounts": [Mount(m.target, m.source, type="bind", read_only=m.read_only) for m in spec.mounts],
        "devices": list(spec.devices),
        "device_requests": [DeviceRequest(driver="cdi", device_ids=list(spec.cdi))] if spec.cdi else [],
        "runtime": spec.runtime,
        "cap_add": list(spec.capabilities),
        "privileged": spec.privileged,
        "shm_size": spec.shm_bytes,
        "restart_policy": {"Name": "no"},
        "network_mode": spec.network,
        "ipc_mode": spec.ipc,
        "pid_mode": spec.pid,
        "port_bindings": bindings,
        "ulimits": [Ulimit(name=u.name, soft=u.soft, hard=u.hard) for u in spec.ulimits],
    }
    return api.create_host_config(**{name: value for name, value in given.items() if value})
