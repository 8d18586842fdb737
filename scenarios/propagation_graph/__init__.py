"""The third paper's own protocol: the propagation graph of Spauster, "Ordered and Reliable Multicast Communication"."""
