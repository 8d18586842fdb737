"""The command new, and the files that it copies."""
