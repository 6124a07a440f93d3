"""The supervisor as a separate program, which lives until the command has ended, also without the agent."""

import os

from .order import Order
from .supervise import supervise


def main(around: str, most_bytes: str, steps: str, *words: str) -> None:
    """Run the program in `words` inside a sandbox. Its last argument comes from the environment.

    `around` is the sandbox program, or empty, and `steps` an open file with steps, or -1.
    """
    environment = dict(os.environ)
    # The command is not among the arguments, because `pkill -f` would find this process, too.
    last, folder = environment.pop("SANDBUR_COMMAND"), environment.pop("SANDBUR_FOLDER")
    supervise(
        Order(
            call=(folder, environment["SANDBUR_CALL"]),
            command=[*words, last],
            environment=environment,
            most_bytes=int(most_bytes),
            sandbox=(around, int(steps)),
        )
    )
    os._exit(0)
