"""How fast Castbed is, each time against a plain yardstick that is measured in the same run."""
