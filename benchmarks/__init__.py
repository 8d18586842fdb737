"""How fast Castbed is, each time compared with a simple yardstick that is measured in the same run."""
