"""The same protocol cores on the same networks, in virtual time."""
