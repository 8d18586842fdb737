"""The token site (Chang and Maxemchuk, "Reliable Broadcast Protocols", 1984)."""
