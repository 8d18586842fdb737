"""The fourth paper: Chang and Hwang, "An Ordered and Reliable Broadcast Protocol for Distributed Systems"."""
