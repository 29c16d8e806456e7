"""Validate manifests with the published schemas, offline: those of Kubernetes, and of tests/data/crds."""

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
def load_crds() -> dict[str, dict[str, Any]]:
    """Return the schemas by kind."""
    found = (json.loads(path.read_text()) for path in sorted(CRDS.glob("*.json")))
    return {crd["kind"]: crd for crd in found}


def list_errors(body: Body) -> list[str]:
    """Return the errors of a manifest in the schemas of all versions."""
    return [text for version in VERSIONS for text in _list_version_errors(body, version)]


def _list_version_errors(body: Body, version: str) -> Iterator[str]:
    for error in _make_validator(body["apiVersion"], body["kind"], version).iter_errors(body):
        yield f"{version}: {'.'.join(map(str, error.absolute_path))}: {error.message[:200]}"


@cache
def _make_validator(api_version: str, kind: str, version: str) -> Any:
    core = _load_core_schemas(version)
    if kind in load_crds():
        crd = load_crds()[kind]
        assert api_version == f"{crd['group']}/{crd['served']}"
        schema = _replace_references(copy.deepcopy(crd["schema"]), core["$id"])
    else:
        schema = {"$ref": f"{core['$id']}#/$defs/{_make_schema_name(core, kind)}"}
    registry: Registry[Any] = Resource.from_contents(core) @ Registry()
    return jsonschema.Draft202012Validator(schema, registry=registry)


def _replace_references(node: Any, where: str) -> Any:
    if isinstance(node, dict):
        if str(node.get("$ref", "")).startswith("core:"):
            return {"$ref": f"{where}#/$defs/{_make_schema_name(None, node['$ref'][5:])}"}
        return {key: _replace_references(value, where) for key, value in node.items()}
    return [_replace_references(each, where) for each in node] if isinstance(node, list) else node


def _make_schema_name(_core: Any, kind: str) -> str:
    own = {
        "ObjectMeta": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        "DaemonSet": "io.k8s.api.apps.v1.DaemonSet",
        "ClusterRoleBinding": "io.k8s.api.rbac.v1.ClusterRoleBinding",
    }
    return own.get(kind, f"io.k8s.api.core.v1.{kind}")


@cache
def _load_core_schemas(version: str) -> dict[str, Any]:
    library = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    folder = Path(library.__file__).parent / "kubernetes-json-schema" / f"v{version}-local-strict"
    found: dict[str, Any] = json.loads((folder / "_definitions.json").read_text())
    return found
