"""How long a network that is up waits at its end for messages that are missing."""

import threading
import time

import pytest

from hostagent.contract.promises import Guarantee, Promise
from testbed.live import session


class StillLacking:
    """A network at its end in which one host lacks messages, and gets no more of them."""

    _over = threading.Event()

    def stream(self, interval_ms):
        assert interval_ms == 0

    def _lacking(self):
        return [0, 3]


@pytest.mark.parametrize(
    ("guarantee", "least_s", "most_s"), [(Guarantee.VIEW_PROGRESS, 0.0, 0.8), (Guarantee.AGREEMENT, 1.0, 9.0)]
)
def test_what_was_sent_in_a_view_without_a_host_is_not_waited_for(monkeypatch, guarantee, least_s, most_s):
    """With views a host is owed nothing from before it; without them all patience is due."""
    monkeypatch.setattr(session, "REST_S", 0.0)
    monkeypatch.setattr(session, "STILL_S", 0.1)
    began = time.monotonic()
    session.Live.settle(StillLacking(), Promise(guarantees=(guarantee,), patience_ms=1000.0, retained=0))
    assert least_s <= time.monotonic() - began < most_s
