"""Calls of the transport in tasks of an event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from carillon import _carillon


async def result_of(task: _carillon.Task) -> Any:
    """Await a call. Cancelling the awaiting task cancels the call."""
    loop = asyncio.get_running_loop()
    try:
        while True:
            woken = loop.create_future()

            def wake(woken: asyncio.Future[None] = woken) -> None:
                # The loop may be closed by now; then there is no one to wake.
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_set, woken)

            found = task.poll(wake)
            if found is not None:
                return found[0]
            await woken
    finally:
        task.cancel()


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
