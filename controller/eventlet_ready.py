"""Makes eventlet fit for Ryu 4.34; imported before any part of Ryu."""

import warnings

# Ryu runs on eventlet and on nothing else, so there is no advice to take from its warning that it is deprecated.
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")

import eventlet.wsgi  # noqa: E402 - the filter has to come first

# Ryu imports this name for its web server, which is not used here; newer versions of eventlet dropped it.
eventlet.wsgi.ALREADY_HANDLED = b""
