"""The order for a supervisor, and its format for a waiting process."""

import os

MOST_BYTES = 100_000
"""Size limit of an order. A longer one may exceed the system's limit, so a new program is started for it."""
MARK = "SANDBUR_CALL"
"""Set in every process of a call, so that they can be found when their supervisor was killed."""
NO_MARK = "0" * 16
"""The mark of a supervisor without a call. The mark of a call replaces it and has the same length."""
PLAIN, CONFINED = b"plain", b"confined"
"""Requests one more supervisor; the second kind can run commands in a sandbox."""
NONE_LEFT = b"none"
"""The answer if the system allows no more processes."""


class Order:
    """One command, and the files for its output and report."""

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
        """The program and its arguments, preceded by the sandbox program if there is one."""
        self.environment = environment
        self.most_bytes = most_bytes
        """Of output."""
        self.around, self.steps = sandbox
        """The program that confines it, if any; an open file of steps into a sandbox, or -1."""


def pack(order: Order, cwd: str, numbers: tuple[int, ...]) -> bytes:
    """Return an order as bytes; `numbers` are the descriptor numbers of the attached open files.

    Raises `ValueError` if a word contains a NUL, as starting a program does.
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
    """Read what `pack` wrote: the order, the folder to work in, the numbers."""
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
