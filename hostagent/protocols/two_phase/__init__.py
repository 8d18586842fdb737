"""Two-phase: the destinations of a message propose priorities, and the highest one is the place of the message in the order."""
