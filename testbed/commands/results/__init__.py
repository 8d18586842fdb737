"""The commands that look at results and take something out of them."""
