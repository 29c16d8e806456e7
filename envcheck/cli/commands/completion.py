"""envcheck completion: what a shell reads so that Tab knows envcheck's words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from envcheck.cli import options
from envcheck.cli.documents import print_document

SHELLS = {
    "bash": 'add to ~/.bashrc: eval "$(envcheck completion bash)"',
    "zsh": 'add to ~/.zshrc: eval "$(envcheck completion zsh)"',
    "fish": "envcheck completion fish > ~/.config/fish/completions/envcheck.fish",
}


@click.command(short_help="Tab completion for bash, zsh and fish.")
@click.argument("shell", type=click.Choice(list(SHELLS)))
@options.json_output
def completion(shell: str, as_json: bool) -> None:
    """Print what makes Tab complete envcheck's commands, options, recipes, models, checks and machines.

    \b
    eval "$(envcheck completion bash)"     for this shell; in ~/.bashrc for all
    envcheck completion zsh                the same for zsh, in ~/.zshrc
    envcheck completion fish > ~/.config/fish/completions/envcheck.fish
    """
    from envcheck.cli.main import main

    made = get_completion_class(shell)
    assert made is not None, "click knows these three"
    script = f"{made(main, {}, 'envcheck', '_ENVCHECK_COMPLETE').source()}\n# {SHELLS[shell]}"
    print_document({"shell": shell, "script": script}) if as_json else click.echo(script)
