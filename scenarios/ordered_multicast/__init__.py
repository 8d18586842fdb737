"""The third paper: Spauster, "Ordered and Reliable Multicast Communication", a thesis."""
