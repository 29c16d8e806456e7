"""Deeds on containers by the engine's API: look, make, start, prove, remove; never on one without our label."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.secrets import redact
from installers.containers.compare import Action, ContainerStatus, compare, differing_words, standing
from installers.containers.inspect_document import Defaults, defaults
from installers.recipes.container_spec import RECIPE_LABEL, Spec
from installers.targets.container_errors import asked

if TYPE_CHECKING:
    from docker import APIClient

# A shell without its input has ended by then: the engine answers inspect only when it is done with an end of which it
# knows, and none of 72 was missed on a machine with ten times its work.  What ends later is seen by the next step.
SETTLE_S = 0.05
BY_HAND = "envcheck provision --as-script shows the line that makes it, to be tried by hand"


def look(api: APIClient, name: str) -> Mapping[str, Any] | None:
    """`docker inspect`; None where nothing has the name (the engine also takes the beginning of an id) or the id."""
    from docker.errors import NotFound

    try:
        found: Mapping[str, Any] = asked(lambda: api.inspect_container(name))
    except StepError as err:
        if isinstance(err.__cause__, NotFound):
            return None
        raise
    return found if name in (str(found.get("Name")).removeprefix("/"), found.get("Id")) else None


def known(api: APIClient, image: str) -> Defaults:
    """What engine and image put in by themselves."""
    return asked(lambda: defaults(api.inspect_image(image), api.info()))  # type: ignore[no-untyped-call]


def stands(api: APIClient, spec: Spec, *, recreate: bool = False) -> ContainerStatus:
    """What is there under the Spec's name, and what is to be done; the image must have been pulled."""
    found = look(api, spec.name)
    return standing(found, spec, known(api, spec.image) if found else None, recreate=recreate)


def ensure(api: APIClient, spec: Spec, *, recreate: bool = False) -> str:
    """The container runs as the Spec says when this returns its id; what was half made by this call is taken back."""
    now = stands(api, spec, recreate=recreate)
    if now.obstacle:
        raise refusal(now)
    if now.action is Action.RECREATE:
        remove(api, spec.name)
    made = now.action in (Action.CREATE, Action.RECREATE)
    identity = create(api, spec) if made else str((look(api, spec.name) or {})["Id"])
    try:
        asked(lambda: api.start(identity))
        if reason := still_wrong(api, spec):
            raise StepError(reason, BY_HAND if made else f"docker logs {spec.name}")
    except BaseException:
        if made:
            remove(api, identity)
        raise
    return identity


def refusal(now: ContainerStatus) -> EnvcheckError:
    """The obstacle as an error, with the differing fields."""
    assert now.obstacle
    return EnvcheckError(now.obstacle.why + differing_words(now), now.obstacle.remedy)


def create(api: APIClient, spec: Spec) -> str:
    """Created, not started; the id."""
    made = asked(
        lambda: api.create_container(
            spec.image,
            command=list(spec.command),
            name=spec.name,
            working_dir=spec.workdir or None,
            environment=dict(spec.environment),
            labels=spec.labels,
            ports=[(port.container, port.protocol) for port in spec.ports],
            host_config=_host_config(api, spec),
            tty=spec.tty,
            stdin_open=spec.stdin,
            detach=True,
        )
    )
    return str(made["Id"])


def still_wrong(api: APIClient, spec: Spec) -> str | None:
    """Why the container does not run as the Spec says; None when it does."""
    until = time.monotonic() + SETTLE_S
    expected = known(api, spec.image)
    time.sleep(max(0.0, until - time.monotonic()))
    found = look(api, spec.name)
    if found is None:
        return f"the container {spec.name} is gone"
    state = found.get("State") or {}
    if state.get("Paused"):
        return f"the container {spec.name} is paused: docker unpause {spec.name}"
    if not state.get("Running"):
        return f"the container {spec.name} ended at once with status {state.get('ExitCode')}{_last_word(api, spec)}"
    differing = compare(found, spec, expected)
    if differing:
        return f"the engine made {spec.name} otherwise than asked: {', '.join(d.field for d in differing)}"
    return None


def _last_word(api: APIClient, spec: Spec) -> str:
    """The last line of its log, which is gone with the container."""
    said = bytes(asked(lambda: api.logs(spec.name, tail=1)))[:2000].decode("utf-8", "replace")
    words = "".join(each for each in said.strip() if each.isprintable())
    return redact(f": {words[:300]}") if words else ""


def remove(api: APIClient, name: str) -> bool:
    """Ended and removed, by the id of what was looked at; False where there was none; a stranger's is refused.

    By force: as first process a shell ignores SIGTERM, so that a stop would wait its ten seconds and kill all the same.
    """
    found = look(api, name)
    if found is None:
        return False
    if _lacks_label(found):
        raise EnvcheckError(
            f"the container {name} was not made by envcheck and is left alone", f"docker inspect {name}"
        )
    identity = str(found["Id"])
    asked(lambda: api.remove_container(identity, v=True, force=True))
    return True


def is_strangers(api: APIClient, name: str) -> bool:
    """There is a container of this name that envcheck did not make."""
    found = look(api, name)
    return found is not None and _lacks_label(found)


def _lacks_label(found: Mapping[str, Any]) -> bool:
    return not ((found.get("Config") or {}).get("Labels") or {}).get(RECIPE_LABEL)


def make_folders(folders: Iterable[str]) -> tuple[str, ...]:
    """Those that were not there, in the order in which they were made: an undo takes them back in reverse if empty."""
    made: list[str] = []
    for folder in folders:
        missing = [path for path in (Path(folder), *Path(folder).parents) if not path.exists()]
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise StepError(f"{folder} cannot be made: {err.strerror}", "start in a folder of yours") from err
        made += [str(path) for path in reversed(missing)]
    return tuple(made)


def _host_config(api: APIClient, spec: Spec) -> Any:
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
