"""The published schemas of what `--on k8s` writes, offline: Kubernetes' own, and those of tests/data/crds."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

CRDS = Path(__file__).parents[3] / "data" / "crds"
VERSIONS = ("1.29.0", "1.37.0")  # of Kubernetes: one that clusters have, and the newest that the library knows
Body = Mapping[str, Any]


@cache
def crds() -> dict[str, dict[str, Any]]:
    """By kind."""
    found = (json.loads(path.read_text()) for path in sorted(CRDS.glob("*.json")))
    return {crd["kind"]: crd for crd in found}


def wrong(body: Body) -> list[str]:
    """What the schemas of every version have against it."""
    return [text for version in VERSIONS for text in _wrong(body, version)]


def _wrong(body: Body, version: str) -> Iterator[str]:
    for error in _validator(body["apiVersion"], body["kind"], version).iter_errors(body):
        yield f"{version}: {'.'.join(map(str, error.absolute_path))}: {error.message[:200]}"


@cache
def _validator(api_version: str, kind: str, version: str) -> Any:
    core = _core(version)
    if kind in crds():
        crd = crds()[kind]
        assert api_version == f"{crd['group']}/{crd['served']}"
        schema = _referring(copy.deepcopy(crd["schema"]), core["$id"])
    else:
        schema = {"$ref": f"{core['$id']}#/$defs/{_name(core, kind)}"}
    registry: Registry[Any] = Resource.from_contents(core) @ Registry()
    return jsonschema.Draft202012Validator(schema, registry=registry)


def _referring(node: Any, where: str) -> Any:
    if isinstance(node, dict):
        if str(node.get("$ref", "")).startswith("core:"):
            return {"$ref": f"{where}#/$defs/{_name(None, node['$ref'][5:])}"}
        return {key: _referring(value, where) for key, value in node.items()}
    return [_referring(each, where) for each in node] if isinstance(node, list) else node


def _name(_core: Any, kind: str) -> str:
    own = {"ObjectMeta": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    return own.get(kind, f"io.k8s.api.core.v1.{kind}")


@cache
def _core(version: str) -> dict[str, Any]:
    library = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    folder = Path(library.__file__).parent / "kubernetes-json-schema" / f"v{version}-local-strict"
    found: dict[str, Any] = json.loads((folder / "_definitions.json").read_text())
    return found
