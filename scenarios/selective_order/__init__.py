"""The fifth paper: Nakamura, Terauchi and Takizawa, "Design and Implementation of Reliable Broadcast Protocol"."""
