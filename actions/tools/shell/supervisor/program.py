"""The supervisor as a program of its own, which outlives the agent by what it takes to end the command."""

import os

from .supervise import Order, supervise


def main(shell: str, most_bytes: str, orders: str, *words: str) -> None:
    """Run the command of the environment; `orders`, an open file, and `words` put it into a sandbox."""
    environment = dict(os.environ)
    # Not among the arguments, where a `pkill -f` of the command would find this process too.
    command, folder = environment.pop("SANDBUR_COMMAND"), environment.pop("SANDBUR_FOLDER")
    supervise(
        Order(
            call=(folder, environment["SANDBUR_CALL"]),
            command=[*words, shell, "-c", command],
            environment=environment,
            most_bytes=int(most_bytes),
            orders=int(orders),
        ),
        around=words[0] if words else "",
    )
    os._exit(0)
