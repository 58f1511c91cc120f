"""Scenarios that several tests share."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def lan() -> dict[str, Any]:
    """A small group on an Ethernet with losses."""
    return {
        "name": "lan",
        "network": {"kind": "lan"},
        "loss": {"model": "bernoulli", "p": 0.05},
        "group": {"receivers": 5},
        "protocol": {"name": "carillon"},
        "workload": {"messages": 50, "message_bytes": 1000},
    }


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT raise. A shell that runs the tests in the background makes them ignore it."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)
