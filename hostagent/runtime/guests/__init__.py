"""Guests: real systems that run beside Castbed's protocols, on the same networks."""
