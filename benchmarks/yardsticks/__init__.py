"""What Castbed is measured against: the least that does the same work."""
