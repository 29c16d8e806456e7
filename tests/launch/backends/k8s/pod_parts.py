"""Pods of a rendered job as containers of a real engine: what a kubelet would do with the documents, by docker."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.installers.images.engine_parts import Engine

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class Pod:
    """One container that waits, into which the pod's own containers' commands are sent, one after the other."""

    engine: Engine
    spec: Spec
    name: str
    index: int

    @property
    def address(self) -> str:
        words = ("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", self.name)
        return self.engine.docker(*words).stdout.strip()

    def init(self, *hosts: str) -> subprocess.CompletedProcess[str]:
        """The init container's command; its status is whether the kubelet would go on."""
        return self._run(self.spec["initContainers"][0])

    def main(self) -> subprocess.CompletedProcess[str]:
        return self._run(self.spec["containers"][0])

    def knows(self, name: str, address: str) -> None:
        """The cluster's name service, for one name."""
        self.engine.docker("exec", self.name, "sh", "-c", f"echo '{address} {name}' >> /etc/hosts")

    def _run(self, container: Spec) -> subprocess.CompletedProcess[str]:
        told = {"status.podIP": self.address, "metadata.labels['training.kubeflow.org/replica-index']": str(self.index)}
        words = []
        for variable in container["env"]:
            value = variable.get("value")
            value = told[variable["valueFrom"]["fieldRef"]["fieldPath"]] if value is None else value
            words += ["--env", f"{variable['name']}={value}"]
        return self.engine.docker("exec", *words, self.name, *container["command"], check=False)


@contextlib.contextmanager
def pod(engine: Engine, spec: Spec, configs: Mapping[str, Spec], storage: Path, index: int = 0) -> Iterator[Pod]:
    """`configs` are the ConfigMaps' bodies by name, `storage` what the claim holds."""
    name = f"envcheck-pod-{uuid.uuid4().hex[:12]}"
    words = ["run", "--detach", "--name", name, "--env", "KUBERNETES_SERVICE_HOST=192.0.2.1"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    folder = storage.with_name(name)
    for mount in spec["containers"][0]["volumeMounts"]:
        volume, target = volumes[mount["name"]], mount["mountPath"]
        names = [each["configMap"]["name"] for each in volume.get("projected", {"sources": [volume]})["sources"]
                 if "configMap" in each]  # fmt: skip
        if names:
            source = folder / mount["name"]
            source.mkdir(parents=True)
            for each in names:
                _unfold(configs[each], source)
        elif mount["name"] == "storage":
            source = storage
        elif volume["emptyDir"].get("medium") == "Memory":
            words += ["--tmpfs", f"{target}:rw,size=64m"]
            continue
        else:
            source = folder / mount["name"]
            source.mkdir(parents=True)
        words += ["--volume", f"{source}:{target}{':ro' if mount.get('readOnly') else ''}"]
    engine.docker(*words, spec["containers"][0]["image"], "sleep", "600")
    try:
        yield Pod(engine, spec, name, index)
    finally:
        engine.docker("rm", "--force", name, check=False)


def _unfold(config: Spec, folder: Path) -> None:
    for name, text in config.get("data", {}).items():
        (folder / name).write_text(text)
    for name, text in config.get("binaryData", {}).items():
        (folder / name).write_bytes(base64.b64decode(text))
