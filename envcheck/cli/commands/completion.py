"""envcheck completion: print the script that lets a shell complete envcheck's words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from envcheck.cli import options
from envcheck.cli.json_document import print_document

SHELLS = {
    "bash": 'add to ~/.bashrc: eval "$(envcheck completion bash)"',
    "zsh": 'add to ~/.zshrc: eval "$(envcheck completion zsh)"',
    "fish": "envcheck completion fish > ~/.config/fish/completions/envcheck.fish",
}


@click.command(short_help="Print a completion script for bash, zsh or fish.")
@click.argument("shell", metavar="SHELL", type=click.Choice(list(SHELLS), case_sensitive=False))
@options.json_option
def completion(shell: str, as_json: bool) -> None:
    """Print a script that completes commands, options, recipes, models, checks and machines.

    SHELL is bash, zsh or fish.

    \b
    eval "$(envcheck completion bash)"     enable it now; add this line to ~/.bashrc
    eval "$(envcheck completion zsh)"      the same for ~/.zshrc
    envcheck completion fish > ~/.config/fish/completions/envcheck.fish
    """
    from envcheck.cli.main import main

    made = get_completion_class(shell)
    assert made is not None, "click knows these three"
    script = f"{made(main, {}, 'envcheck', '_ENVCHECK_COMPLETE').source()}\n# {SHELLS[shell]}"
    print_document({"shell": shell, "script": script}) if as_json else click.echo(script)
