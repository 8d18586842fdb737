"""What hosts state about each other: parents and suspicions."""
