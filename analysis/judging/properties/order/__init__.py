"""The order in which hosts deliver or commit messages.

The checker of each scope has the function `check(order, history, promise, connectivity) -> Finding`, as the strength of the order and the
step that it is about are part of the question. The other modules are checkers like those of other properties.
"""
