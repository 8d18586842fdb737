"""Checkers of promises that only the datagrams between hosts can show."""
