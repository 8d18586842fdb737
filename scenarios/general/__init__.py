"""Scenarios of no paper: networks to try any protocol on."""
