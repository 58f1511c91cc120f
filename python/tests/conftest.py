"""Scenarios that several tests share."""

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
