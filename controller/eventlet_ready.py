"""Prepares eventlet for Ryu 4.34. Import this module before any part of Ryu."""

import warnings

# Ryu runs on eventlet only, so the warning that eventlet is deprecated is of no use.
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")

import eventlet.wsgi  # noqa: E402 - the filter has to come first

# Ryu imports this name for its web server, which Castbed does not use; newer versions of eventlet do not have the name.
eventlet.wsgi.ALREADY_HANDLED = b""
