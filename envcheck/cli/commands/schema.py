"""envcheck schema: print the JSON Schema of --json documents, or list the documents."""

from __future__ import annotations

import click

from envcheck.cli import options
from envcheck.cli.json_document import print_document
from envcheck.core.language import translate


@click.command(short_help="Print the JSON Schema of --json output.")
@click.argument("document", metavar="[DOCUMENT]", required=False)
@options.json_option
def schema(document: str | None, as_json: bool) -> None:
    """Print the JSON Schema (draft 2020-12) of a command's --json output.  Without DOCUMENT, list the documents.

    \b
    envcheck schema
    envcheck schema doctor > doctor.schema.json
    """
    from envcheck.cli import schemas

    if document is not None:
        click.echo(schemas.render_schema(document), nl=False)
        return
    known = schemas.list_documents()
    if as_json:
        print_document({"documents": [{"name": name, "title": title} for name, title in known.items()]})
        return
    wide = max(map(len, known)) + 2
    click.echo("\n".join(f"{name:{wide}}{translate(title)}" for name, title in known.items()))
