"""One site numbers all messages: `protocol` says how."""
