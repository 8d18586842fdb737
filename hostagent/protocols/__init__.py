"""Every protocol by the name that users type."""

from hostagent.core import Core
from hostagent.protocols.basic import Basic
from hostagent.protocols.best_effort import BestEffort

PROTOCOLS: dict[str, type[Core]] = {core.name: core for core in (BestEffort, Basic)}
