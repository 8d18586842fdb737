"""The cluster tree of the first paper, exactly as in the paper (literal) and with far fewer control packets (frugal)."""

from hostagent.protocols.cluster_tree.core import ClusterTree

__all__ = ["ClusterTree"]
