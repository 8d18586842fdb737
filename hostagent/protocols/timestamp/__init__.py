"""Timestamp: messages are delivered in the order of their time stamps, when nothing smaller can be outstanding."""
