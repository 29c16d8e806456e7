"""What keeps us from the container engine, as sentences with a next step."""

from __future__ import annotations

import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.secrets import redact
from envcheck.core.versions import at_least

DEFAULT = "unix:///var/run/docker.sock"
ANSWER_S = 15.0  # for one request; a loaded engine with hundreds of containers answers `info` in seconds
KNOCK_S = 5.0
# Older ones answer clone3 with "not permitted" (moby issue 42681): in images with glibc 2.34 or newer no thread starts.
LEAST = "20.10.10"


@dataclass(frozen=True)
class Problem:
    """Why the engine cannot be used; `kind`: absent, stopped, denied, hung, old or other."""

    kind: str
    message: str
    next_step: str


def knock(url: str) -> Problem | None:
    """What keeps us from the socket.  Asked for first: the SDK wraps all of it into one sentence."""
    if not url.startswith("unix://"):
        return None
    path = url.removeprefix("unix://")
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(KNOCK_S)
            link.connect(path)
    except FileNotFoundError:
        return _not_there(path)
    except ConnectionRefusedError:
        return _stopped(path)
    except PermissionError:
        return Problem(
            "denied",
            f"this user may not use the container engine at {path}",
            "sudo usermod -aG docker $USER, then log in anew; or repeat the command as root",
        )
    except TimeoutError:
        return _hung(url, KNOCK_S)
    except OSError as err:  # a path that is too long, among others
        return Problem("other", f"{url}: {(err.strerror or str(err)).lower()}", "see DOCKER_HOST")
    return None


def settings() -> Problem | None:
    """docker's own file of settings and logins, which the SDK takes for well-formed."""
    from docker import auth, errors
    from docker.utils import config, proxy

    try:
        found = config.load_general_config()
        proxy.ProxyConfig.from_dict(found.get("proxies", {}).get("default", {}))
        auth.load_config(config_dict=found)
    except (errors.DockerException, AttributeError, TypeError, ValueError, KeyError, RecursionError):
        path = str(config.find_config_file())
        said = f"docker's own settings {path} cannot be understood"
        return Problem("other", said, "correct the file, or move it away and log in anew: docker login")
    return None


def _not_there(path: str) -> Problem:
    if path != DEFAULT.removeprefix("unix://") or _has_daemon():
        return _stopped(path)
    return Problem(
        "absent",
        "no container engine is installed",
        f"install Docker {LEAST} or newer (Debian, Ubuntu: sudo apt-get install docker.io)",
    )


def _has_daemon() -> bool:
    """It stands in sbin, which is not on everybody's PATH."""
    return bool(shutil.which("dockerd") or Path("/usr/sbin/dockerd").exists())


def _stopped(path: str) -> Problem:
    own = path == DEFAULT.removeprefix("unix://")
    next_step = "sudo systemctl start docker" if own else "start it, or correct DOCKER_HOST"
    return Problem("stopped", f"the container engine is not running: nobody listens at {path}", next_step)


def _hung(url: str, waited_s: float) -> Problem:
    said = f"the container engine at {redact(url)} did not answer within {waited_s:.0f} s"
    return Problem("hung", said, "see its log: journalctl -u docker; sudo systemctl restart docker")


def refused(url: str, err: Exception) -> Problem:
    """What the SDK's exception means."""
    import docker
    import requests

    text = redact(" ".join(str(err).split()))[:300]
    if isinstance(err, docker.errors.InvalidVersion):
        return Problem("old", f"the container engine is too old: {text}", f"upgrade to Docker {LEAST} or newer")
    if isinstance(err, requests.Timeout) or "timed out" in text.lower():
        return _hung(url, ANSWER_S)
    return Problem(
        "other",
        f"the container engine at {redact(url)} cannot be used: {text}",
        "see DOCKER_HOST, DOCKER_CERT_PATH and DOCKER_TLS_VERIFY",
    )


def too_old(version: str, podman: bool) -> Problem | None:
    """Podman counts otherwise, and a version that cannot be read proves nothing."""
    if podman or not version[:1].isdigit() or at_least(version.partition("+")[0], LEAST):
        return None
    said = f"Docker {version} is too old: its seccomp profile lets no thread start in images with glibc 2.34 or newer"
    return Problem("old", said, f"upgrade to Docker {LEAST} or newer")
