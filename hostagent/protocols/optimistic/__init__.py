"""The optimistic protocol of Chung, Liu and Lin."""
