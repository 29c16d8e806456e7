"""envcheck schema: what the documents of --json look like."""

from __future__ import annotations

import click

from envcheck.cli import options
from envcheck.cli.documents import print_document


@click.command(short_help="What the documents of --json look like, as JSON Schema.")
@click.argument("document", metavar="[DOCUMENT]", required=False)
@options.json_output
def schema(document: str | None, as_json: bool) -> None:
    """Print the JSON Schema (draft 2020-12) of a command's --json; without DOCUMENT, name those that there are.

    \b
    envcheck schema
    envcheck schema doctor > doctor.schema.json
    """
    from envcheck.cli import schemas

    if document is not None:
        click.echo(schemas.text(document), nl=False)
        return
    known = schemas.names()
    if as_json:
        print_document({"documents": [{"name": name, "title": title} for name, title in known.items()]})
        return
    wide = max(map(len, known)) + 2
    click.echo("\n".join(f"{name:{wide}}{title}" for name, title in known.items()))
