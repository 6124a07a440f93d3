"""Model calls of workers wait until the budget that all workers share allows them."""

from __future__ import annotations

import asyncio

from ...actions.ports import ModelRequest, Reply
from ...state.databases.database import Database
from ...state.store.sessions.budgets import BudgetRows
from ..extensions.middleware.middleware import Middleware, NextModelCall

_LONGEST_PAUSE_S = 5.0
_INNERMOST = 1_000_000
"""Other middleware may answer without the model; what reaches this layer is sent."""


class SharedBudget(Middleware):
    """Takes one request of the budget of a model before each call, and charges the tokens of the reply.

    Without a budget of the model or of its provider, nothing waits.
    """

    priority = _INNERMOST

    def __init__(self, database: Database, model: str) -> None:
        """`model` is the name of the model: `provider/model`."""
        self._budgets = BudgetRows(database)
        self._names = (model, model.partition("/")[0])

    async def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Reply:
        name = await asyncio.to_thread(self._budgets.find, *self._names)
        if not name:
            return await next(request)
        # Nobody tells when a bucket has filled.
        while wait_s := await asyncio.to_thread(self._budgets.take, name):  # noqa: ASYNC110
            await asyncio.sleep(min(wait_s, _LONGEST_PAUSE_S))
        reply = await next(request)
        used = (reply.usage.input_tokens or 0) + (reply.usage.output_tokens or 0)
        await asyncio.to_thread(self._budgets.charge, name, used)
        return reply
