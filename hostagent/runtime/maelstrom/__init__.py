"""Programs that speak the JSON lines of Maelstrom, as protocols."""
