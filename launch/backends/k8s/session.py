"""`envcheck train --on k8s` from the request to the exit code."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import click

from envcheck.core import errors
from envcheck.core.errors import EnvcheckError, UsageError
from envcheck.core.secrets import redact
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job.job import Job
from envcheck.payload import pyz
from launch import written
from launch.backends.k8s import documents, pod
from launch.backends.k8s.documents import K8sManifest
from launch.backends.k8s.k8s_options import K8sOptions, PodGroup, parts, wish
from launch.runs.backends import Own, PreviewOptions
from launch.targets.request import TrainRequest

NOT_HERE = ("gates", "provision", "watch", "no_stop", "limits")  # of a run that envcheck stays with


def train(request: TrainRequest, own: Own, shown: PreviewOptions) -> int:
    """Documents, shown or written or given to the cluster."""
    _of_use(request, shown)
    said, every = _parts(request, own)
    known = {part.architecture for part in every} & set(pyz.MACHINES)
    payload = pyz.build(frozenset(known))
    made, packed = documents.documents(request, said, every, payload), documents.packed(said, payload)
    if shown.write:
        return _write(made, packed, shown.write, request.yes)
    if shown.dry_run or shown.as_script:
        click.echo(_as_json(every[0].job, made, packed) if request.as_json else _as_text(made, packed), nl=False)
        return errors.FIT
    from launch.backends.k8s import cluster  # loads the official client

    return cluster.submit(request, said, every, made, packed)


def _parts(request: TrainRequest, own: Own) -> tuple[K8sOptions, tuple[PodGroup, ...]]:
    """What was asked for, and the parts of the job."""
    every = parts(request, wish({**own, "job_name": "unnamed"}, ""))
    return wish(own, _name(every[0].recipe.name, every[0].method.variant or every[0].method.method)), every


def _name(recipe: str, method: str) -> str:
    """With the time, so that no two jobs are of one name; Kubernetes leaves 51 letters."""
    stamp = f"{datetime.now(timezone.utc):%m%d-%H%M%S}"
    return f"{pod.dns_name(f'{recipe}-{method}')[:38].rstrip('-')}-{stamp}"


def _of_use(request: TrainRequest, shown: PreviewOptions) -> None:
    for name in NOT_HERE:
        if getattr(request, name):
            option = f"--{name.replace('_', '-').rstrip('s') if name == 'limits' else name.replace('_', '-')}"
            raise UsageError(
                f"{option} is for a run on this machine", f"leave {option} out: each pod walks the gates itself"
            )
    if shown.as_script:
        raise UsageError("--as-script is a shell script, and a job of Kubernetes is YAML", "say --dry-run alone")
    for text in (*request.settings, *request.extra):
        if redact(text) != text:
            raise UsageError(
                f"{redact(text)[:80]!r} holds a secret, and everybody who may read the namespace reads a manifest",
                "leave it out; the cluster's Secrets are for it",
            )


def _as_text(made: tuple[K8sManifest, ...], packed: tuple[K8sManifest, ...]) -> str:
    size = sum(len(text) for each in packed for text in each.body["binaryData"].values()) * 3 // 4 >> 10
    words = f"ConfigMaps {packed[0].name} to {packed[-1].name}, {size} KiB, hold envcheck itself for the gates"
    head = f"# {words}: --write DIR writes them beside these.\n"
    return head + documents.yaml(made)


def _as_json(job: Job, made: tuple[K8sManifest, ...], packed: tuple[K8sManifest, ...]) -> str:
    said = {
        "schema": SCHEMA_VERSION,
        "state": "planned",
        "job": job.as_json(),
        "needs": [each.name for each in packed],
        "documents": [dict(each.body) for each in made],
    }
    return json.dumps(said, indent=1) + "\n"


def _write(made: tuple[K8sManifest, ...], packed: tuple[K8sManifest, ...], folder: Path, over: bool) -> int:
    """`kubectl create -f FOLDER` makes all of it; apply would keep a copy of envcheck in an annotation, and fail."""
    texts = {"envcheck.yaml": documents.yaml(packed), "job.yaml": documents.yaml(made)}
    try:
        written.put(folder, texts, over)
    except OSError as err:
        words = f"{folder}: cannot be written: {(err.strerror or str(err)).lower()}"
        raise EnvcheckError(words, "name a folder of your own with --write") from None
    click.echo("\n".join(str(folder / name) for name in texts))
    return errors.FIT
