"""The counter-based token protocol of the fourth paper (Chang and Hwang)."""
