"""The cluster tree of the first paper, in the paper's own words (literal) and with far fewer control packets (frugal)."""

from hostagent.protocols.cluster_tree.core import ClusterTree

__all__ = ["ClusterTree"]
