"""The JSON document that a command prints with --json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from envcheck.core.version import SCHEMA_VERSION


def print_document(values: Mapping[str, Any]) -> None:
    """Print `values` with the schema number, in ASCII, which every locale can encode."""
    click.echo(json.dumps({"schema": SCHEMA_VERSION, **values}, indent=1))
