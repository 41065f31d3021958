"""The boots that tests ask for; equal ones are done once a session."""

from __future__ import annotations

import pytest
from guests import Guests


@pytest.fixture(scope="session")
def guests() -> Guests:
    return Guests()
