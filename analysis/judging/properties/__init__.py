"""The promises of a broadcast protocol, one module a property, in a folder for each kind of property.

Each module has one function, `check(history, promise, connectivity) -> Finding`. It is pure, says *violated* only with the events that
show the violation, and *unknown* if the history is damaged or too short. `analysis.judging.judge` has the register.
"""
