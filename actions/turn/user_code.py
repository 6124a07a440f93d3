"""The one guard around code of the user: functions, validators and objects that a program gives to an agent.

An exception of such code is an error of the user, and not of Sandbur: it becomes one sentence that names the
function, and the log gets its traceback. Cancellations and the end of the process pass.
"""

from __future__ import annotations

import logging
import sysconfig
from collections.abc import Callable
from pathlib import Path
from traceback import format_exception
from types import CodeType, TracebackType

from ...state.conversation.messages import encodable
from ...state.errors import SandburError, UserCodeError
from ..ports import BadArguments, CallSuspended

_LOG = logging.getLogger("sandbur")
_PACKAGE = __name__.partition(".")[0]
_PLACES = ("stdlib", "platstdlib", "purelib", "platlib")
_LIBRARIES = ("<frozen", *{f"{sysconfig.get_path(name)}/" for name in _PLACES})
_MOST_CHARS = 500
_FUNCTION = "{function}"
_HINT = "It is code of the user: correct it. The log has the traceback."
_DELIBERATE = (SandburError, BadArguments, CallSuspended)
"""Exceptions that user code may raise to say something. They pass unchanged."""


class UserCode:
    """A context manager around a call of user code, which translates its exceptions."""

    def __init__(
        self,
        what: str = "",
        make: Callable[[str, str], Exception] = UserCodeError,
        hint: str = _HINT,
        passes: tuple[type[Exception], ...] = (),
        level: int = logging.ERROR,
    ) -> None:
        """`what` begins the sentence, such as "The metric lines"; `{function}` in it is the function that
        raised the exception. `make` makes the error from the sentence and the hint. `passes` are exceptions
        that stay as they are.

        Without `what` the block also runs code of Sandbur: only an exception that user code raised is
        translated, and the sentence names its function.
        """
        self._what = what
        self._make = make
        self._hint = hint
        self._passes = (*_DELIBERATE, *passes)
        self._level = level

    def __enter__(self) -> UserCode:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, self._passes):
            return
        if not self._what:
            if (blamed := blame_user(error)) is not None:
                raise blamed from error
            return
        what = self._what
        if _FUNCTION in what:
            what = what.replace(_FUNCTION, name_user_function(error) or "code of the user")
        log_user_failure(what, error, self._level)
        raise self._make(f"{what} failed: {describe_exception(error)}.", self._hint) from error


def make_bad_arguments(message: str, hint: str) -> BadArguments:
    """Return the error of a check of arguments: the model reads it."""
    return BadArguments(message)


def blame_user(error: Exception) -> UserCodeError | None:
    """Return the error for an exception that code of the user raised; None if Sandbur raised it."""
    function = name_user_function(error)
    if not function:
        return None
    what = f"The user's function {function}"
    log_user_failure(what, error)
    return UserCodeError(f"{what} failed: {describe_exception(error)}.", _HINT)


def make_encodable(record: logging.LogRecord) -> bool:
    """Replace lone surrogates in a log record, which no file and no terminal accepts.

    The text of an exception may have some, such as the name of a file that is no UTF-8.
    """
    message = record.getMessage()
    if message != (clean := encodable(message)):
        record.msg, record.args = clean, None
    if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
        trace = "".join(format_exception(*record.exc_info)).rstrip("\n")
        if trace != (clean := encodable(trace)):
            record.exc_text = clean
    return True


_LOG.addFilter(make_encodable)


def log_user_failure(what: str, error: BaseException, level: int = logging.ERROR) -> None:
    """Log the traceback of an exception of user code."""
    _LOG.log(level, "%s failed", what, exc_info=error)


def describe_exception(error: BaseException) -> str:
    """Return the type and the text of an exception in one line."""
    text = " ".join(read_text(error).split())[:_MOST_CHARS].rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def read_text(error: BaseException) -> str:
    """Return the text of an exception; empty if its own code cannot make one."""
    try:
        return str(error)
    except Exception:  # its `__str__` is code of the user, too
        return ""


def name_user_function(error: BaseException) -> str:
    """Return the function of the user that raised an exception, with its place; empty if Sandbur raised
    it."""
    found, trace = "", error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        code = trace.tb_frame.f_code
        if module.partition(".")[0] == _PACKAGE:
            found = ""
        elif not found and not code.co_filename.startswith(_LIBRARIES):
            found = f"{_name_code(code)} ({Path(code.co_filename).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return found


def _name_code(code: CodeType) -> str:
    return code.co_qualname.rpartition("<locals>.")[2]
