"""The propagation graph of the third paper (Spauster, "Ordered and Reliable Multicast Communication", 1991)."""
