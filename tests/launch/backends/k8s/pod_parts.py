"""Run the pods of a job as docker containers, as a kubelet would run the manifests."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.installers.images.engine_parts import DockerEngine

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class PodContainer:
    """An idle container in which the commands of the pod's containers are run one after the other."""

    engine: DockerEngine
    spec: Spec
    name: str
    index: int

    @property
    def ip_address(self) -> str:
        words = ("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", self.name)
        return self.engine.run_docker(*words).stdout.strip()

    def run_init(self, *hosts: str) -> subprocess.CompletedProcess[str]:
        """Run the command of the init container; exit code 0 means that the kubelet would start the training."""
        return self._run_container(self.spec["initContainers"][0])

    def run_main(self) -> subprocess.CompletedProcess[str]:
        return self._run_container(self.spec["containers"][0])

    def add_host_name(self, name: str, address: str) -> None:
        """Add a name to /etc/hosts, in place of the DNS of the cluster."""
        self.engine.run_docker("exec", self.name, "sh", "-c", f"echo '{address} {name}' >> /etc/hosts")

    def _run_container(self, container: Spec) -> subprocess.CompletedProcess[str]:
        fields = {
            "status.podIP": self.ip_address,
            "metadata.labels['training.kubeflow.org/replica-index']": str(self.index),
        }
        words = []
        for variable in container["env"]:
            value = variable.get("value")
            value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]] if value is None else value
            words += ["--env", f"{variable['name']}={value}"]
        return self.engine.run_docker("exec", *words, self.name, *container["command"], check=False)


@contextlib.contextmanager
def start_pod(
    engine: DockerEngine, spec: Spec, configs: Mapping[str, Spec], storage: Path, index: int = 0
) -> Iterator[PodContainer]:
    """`configs`: name → ConfigMap; `storage`: the folder that the volume claim provides."""
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
                _write_config(configs[each], source)
        elif mount["name"] == "storage":
            source = storage
        elif volume["emptyDir"].get("medium") == "Memory":
            words += ["--tmpfs", f"{target}:rw,size=64m"]
            continue
        else:
            source = folder / mount["name"]
            source.mkdir(parents=True)
        words += ["--volume", f"{source}:{target}{':ro' if mount.get('readOnly') else ''}"]
    engine.run_docker(*words, spec["containers"][0]["image"], "sleep", "600")
    try:
        yield PodContainer(engine, spec, name, index)
    finally:
        engine.run_docker("rm", "--force", name, check=False)


def _write_config(config: Spec, folder: Path) -> None:
    for name, text in config.get("data", {}).items():
        (folder / name).write_text(text)
    for name, text in config.get("binaryData", {}).items():
        (folder / name).write_bytes(base64.b64decode(text))
