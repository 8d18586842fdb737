"""Small files that work: `castbed new` writes them under another name."""
