"""What all tests share."""

from __future__ import annotations

import signal

#: A shell that starts the tests in the background has them ignore SIGINT, and their children too.
signal.signal(signal.SIGINT, signal.default_int_handler)
