"""The first paper: "Reliable Broadcast in Networks with Nonprogrammable Servers" (Garcia-Molina, Kogan, Lynch, 1987)."""
