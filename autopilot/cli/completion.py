"""``autopilot completion``: the script that makes a shell complete commands and options."""

from __future__ import annotations

from typing import Literal

from autopilot.cli.exits import Exit


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print a script that completes autopilot's commands and options in your shell.

    bash: autopilot completion bash > ~/.local/share/bash-completion/completions/autopilot.
    zsh: into a file _autopilot of your $fpath. fish: into ~/.config/fish/completions/autopilot.fish.

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    from autopilot.cli.main import app

    print(app().generate_completion(shell=shell))
    return Exit.OK
