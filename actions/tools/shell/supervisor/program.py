"""The supervisor as a separate program, which outlives the agent until the command has ended."""

import os

from .order import Order
from .supervise import supervise


def main(shell: str, most_bytes: str, steps: str, *words: str) -> None:
    """Run the command of the environment; `steps`, an open file, and `words` put it into a sandbox."""
    environment = dict(os.environ)
    # Not among the arguments, where a `pkill -f` of the command would find this process too.
    command, folder = environment.pop("SANDBUR_COMMAND"), environment.pop("SANDBUR_FOLDER")
    supervise(
        Order(
            call=(folder, environment["SANDBUR_CALL"]),
            command=[*words, shell, "-c", command],
            environment=environment,
            most_bytes=int(most_bytes),
            sandbox=(words[0] if words else "", int(steps)),
        )
    )
    os._exit(0)
