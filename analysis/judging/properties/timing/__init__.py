"""Checkers of promises that bound the time to a delivery: the formal model of the third paper, chapter 6."""
