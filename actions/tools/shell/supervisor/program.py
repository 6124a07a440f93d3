"""The supervisor as a separate program, which outlives the agent until the command has ended."""

import os

from .order import Order
from .supervise import supervise


def main(around: str, most_bytes: str, steps: str, *words: str) -> None:
    """Run the program of `words` with its last argument from the environment, inside a sandbox.

    `around` is the program that confines it, if any, and `steps` an open file of steps, or -1.
    """
    environment = dict(os.environ)
    # Not among the arguments, where a `pkill -f` of the command would find this process too.
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
