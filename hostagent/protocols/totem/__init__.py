"""The Totem single-ring protocol (Amir and others, 1995), which the fourth paper compares itself with."""
