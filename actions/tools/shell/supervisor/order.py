"""The order for a supervisor, and its format for a waiting process."""

import os

MOST_BYTES = 100_000
"""The size limit of an order. A longer one may exceed the system's limit, so a new program is started
for it.
"""
MARK = "SANDBUR_CALL"
"""An environment variable in every process of a call, which identifies them if their supervisor was
killed.
"""
NO_MARK = "0" * 16
"""The mark of a supervisor without a call. The mark of a call replaces it and has the same length."""
PLAIN, CONFINED = b"plain", b"confined"
"""The two requests for one more supervisor. A `confined` one can run commands in a sandbox."""
NONE_LEFT = b"none"
"""The answer if the system allows no more processes."""


class Order:
    """The order to run one command, with the files for its output and report."""

    def __init__(
        self,
        call: tuple[str, str],
        command: list[str],
        environment: dict[str, str],
        most_bytes: int,
        sandbox: tuple[str, int],
    ) -> None:
        self.folder, self.marker = call
        self.command = command
        """The program and its arguments. If there is a sandbox program, it comes first."""
        self.environment = environment
        self.most_bytes = most_bytes
        """The most bytes of output."""
        self.around, self.steps = sandbox
        """The sandbox program, empty if there is none, and an open file with the steps into a
        sandbox, or -1.
        """


def pack(order: Order, cwd: str, numbers: tuple[int, ...]) -> bytes:
    """Return an order as bytes. `numbers` are the descriptor numbers of the attached open files.

    Raises `ValueError` if a word contains a NUL, like the start of a program.
    """
    words = [
        *(order.folder, order.marker, str(order.most_bytes), order.around, str(order.steps), cwd),
        ",".join(map(str, numbers)),
        str(len(order.command)),
        *order.command,
        *(f"{name}={value}" for name, value in order.environment.items()),
    ]
    content = b"\0".join(map(os.fsencode, words))
    if content.count(b"\0") != len(words) - 1:
        raise ValueError("embedded null byte")
    return content


def unpack(content: bytes) -> tuple[Order, str, list[int]]:
    """Parse the result of `pack`: the order, the working folder and the descriptor numbers."""
    folder, marker, most_bytes, around, steps, cwd, numbers, count, *rest = content.split(b"\0")
    words = [os.fsdecode(word) for word in rest]
    variables = (word.partition("=") for word in words[int(count) :])
    order = Order(
        call=(os.fsdecode(folder), marker.decode()),
        command=words[: int(count)],
        environment={name: value for name, _, value in variables},
        most_bytes=int(most_bytes),
        sandbox=(os.fsdecode(around), int(steps)),
    )
    return order, os.fsdecode(cwd), [int(number) for number in numbers.split(b",") if number]
