"""Brings a scenario to life on Mininet, and gives it a command line."""
