"""Problems that prevent access to the container engine, as messages with a next step."""

from __future__ import annotations

import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.errors import describe_os_error
from envcheck.core.messages import Message, _, fill, verbatim
from envcheck.core.secrets import redact_text
from envcheck.core.versions import is_at_least
from installers.images.engine_kinds import DOCKER, FOREIGN, EngineKind, ForeignEngine

DEFAULT = "unix:///var/run/docker.sock"
ANSWER_S = 15.0  # for one request; a busy engine with hundreds of containers needs seconds for `info`
KNOCK_S = 5.0
# Older versions deny clone3 (moby issue 42681): in images with glibc 2.34 or newer no thread can be created.
LEAST = DOCKER.oldest


@dataclass(frozen=True)
class EngineProblem:
    """Why the engine cannot be used; `kind`: absent, stopped, denied, hung, old or other.

    `foreign` is the program that is there in place of an engine.
    """

    kind: str
    message: Message
    next_step: Message
    foreign: ForeignEngine | None = None


def probe_socket(url: str) -> EngineProblem | None:
    """Return the problem that prevents a connection to the socket; None if there is none or `url` is not a socket.

    Checked before the SDK is used, because the SDK reports all these causes with the same error.
    """
    if not url.startswith("unix://"):
        return None
    path = url.removeprefix("unix://")
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(KNOCK_S)
            link.connect(path)
    except FileNotFoundError:
        return _absent_problem(path)
    except ConnectionRefusedError:
        return _stopped_problem(path)
    except PermissionError:
        return EngineProblem(
            "denied",
            _("this user has no access to the container engine at {path}", path=path),
            _("run `sudo usermod -aG docker $USER`, then log in again; or run the command as root"),
        )
    except TimeoutError:
        return _hung_problem(url, KNOCK_S)
    except OSError as err:  # for example a path that is too long
        return EngineProblem(
            "other", _("{url}: {reason}", url=url, reason=describe_os_error(err)), _("check DOCKER_HOST")
        )
    return None


def check_settings() -> EngineProblem | None:
    """Return a problem if docker's configuration file is malformed: the SDK does not handle that."""
    from docker import auth, errors
    from docker.utils import config, proxy

    try:
        found = config.load_general_config()
        proxy.ProxyConfig.from_dict(found.get("proxies", {}).get("default", {}))
        auth.load_config(config_dict=found)
    except (errors.DockerException, AttributeError, TypeError, ValueError, KeyError, RecursionError):
        path = str(config.find_config_file())
        message = _("cannot parse docker's configuration file {path}", path=path)
        return EngineProblem("other", message, _("fix the file, or move it away and run `docker login` again"))
    return None


def _absent_problem(path: str) -> EngineProblem:
    if path != DEFAULT.removeprefix("unix://") or _has_daemon():
        return _stopped_problem(path)
    if other := next((each for each in FOREIGN if shutil.which(each.program)), None):
        why = _("{engine} is installed, but cannot be used: {why}", engine=other.title, why=fill(other.why))
        return EngineProblem("absent", why, fill(other.help), other)
    return make_absent_problem()


def make_absent_problem() -> EngineProblem:
    """Return the problem that no container engine is installed."""
    return EngineProblem(
        "absent",
        _("no container engine installed"),
        _("install Docker {least} or newer (Debian, Ubuntu: `sudo apt-get install docker.io`)", least=LEAST),
    )


def _has_daemon() -> bool:
    """Return whether dockerd is installed; it is in sbin, which may be missing in PATH."""
    return bool(shutil.which("dockerd") or Path("/usr/sbin/dockerd").exists())


def _stopped_problem(path: str) -> EngineProblem:
    own = path == DEFAULT.removeprefix("unix://")
    next_step = verbatim("sudo systemctl start docker") if own else _("start the engine, or correct DOCKER_HOST")
    return EngineProblem(
        "stopped", _("the container engine is not running: nothing listens on {path}", path=path), next_step
    )


def _hung_problem(url: str, waited_s: float) -> EngineProblem:
    return EngineProblem(
        "hung",
        _(
            "the container engine at {url} did not respond within {waited_s:.0f} s",
            url=redact_text(url),
            waited_s=waited_s,
        ),
        _("check its log with `journalctl -u docker`, then run `sudo systemctl restart docker`"),
    )


def explain_exception(url: str, err: Exception) -> EngineProblem:
    """Return the problem that an exception of the SDK describes."""
    import docker
    import requests

    text = redact_text(" ".join(str(err).split()))[:300]
    if isinstance(err, docker.errors.InvalidVersion):
        return EngineProblem(
            "old",
            _("the container engine is too old: {reason}", reason=text),
            _("upgrade to Docker {least} or newer", least=LEAST),
        )
    if isinstance(err, requests.Timeout) or "timed out" in text.lower():
        return _hung_problem(url, ANSWER_S)
    return EngineProblem(
        "other",
        _("cannot use the container engine at {url}: {reason}", url=redact_text(url), reason=text),
        _("check DOCKER_HOST, DOCKER_CERT_PATH and DOCKER_TLS_VERIFY"),
    )


def check_version(version: str, kind: EngineKind) -> EngineProblem | None:
    """Return a problem if the engine is too old; an unreadable version is accepted."""
    if not version[:1].isdigit() or is_at_least(version.partition("+")[0], kind.oldest):
        return None
    if kind.oldest != LEAST:
        message = _("{engine} {version} is too old", engine=kind.title, version=version)
        return EngineProblem("old", message, _("upgrade to {engine} {oldest}", engine=kind.title, oldest=kind.oldest))
    message = _(
        "Docker {version} is too old: its seccomp profile blocks thread creation in images with glibc 2.34 or newer",
        version=version,
    )
    return EngineProblem("old", message, _("upgrade to Docker {least} or newer", least=LEAST))
