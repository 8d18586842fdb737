"""Who tells whom what, and when: the part in which the two modes of the cluster tree differ."""

import abc
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hostagent.protocols.cluster_tree.messages import Hello, Info
from hostagent.protocols.cluster_tree.parameters import ClusterTreeParameters
from hostagent.protocols.cluster_tree.tree import Tree

if TYPE_CHECKING:
    from hostagent.protocols.cluster_tree.core import ClusterTree


class Exchange(abc.ABC):
    """The calls from the core to its exchange."""

    repeats: bool
    """Whether a host declares itself to its parent at every run of the attachment procedure."""

    def __init__(self, core: "ClusterTree") -> None:
        self._core = core
        self._env = core.env
        self._parameters = core.parameters

    @staticmethod
    @abc.abstractmethod
    def patience_ms(parameters: ClusterTreeParameters, hosts: int) -> float:
        """How long a way must be open for the protocol to have used it for certain."""

    @staticmethod
    @abc.abstractmethod
    def background_per_second(parameters: ClusterTreeParameters, hosts: int) -> float:
        """Messages that a host sends per second when there is nothing left to do, however many sources there are."""

    @staticmethod
    @abc.abstractmethod
    def background_per_source(parameters: ClusterTreeParameters, hosts: int) -> float:
        """Messages that a host sends per second for each source when there is nothing left to do."""

    def start(self) -> None:  # noqa: B027 - matters to one mode only
        """The host starts."""

    @abc.abstractmethod
    def begin(self, tree: Tree) -> None:
        """An instance begins."""

    @abc.abstractmethod
    def on_timer(self, timer: str, source: str) -> None:
        """A timer of the exchange expired; `source` is empty if the timer does not belong to a tree."""

    @abc.abstractmethod
    def parent_alive(self, tree: Tree) -> None:
        """PARENT-ALIVE: the parent said something."""

    @abc.abstractmethod
    def parent_silent(self, tree: Tree) -> None:
        """The parent said nothing for too long."""

    def unanswered(self, tree: Tree) -> None:
        """The parent did not answer."""
        self._core.give_up(tree)

    def declared(self, tree: Tree) -> None:  # noqa: B027 - matters to one mode only
        """This host has just declared itself to its parent."""

    def adopted(self, tree: Tree, child: str) -> None:  # noqa: B027 - matters to one mode only
        """A child has declared itself, and this host has answered."""

    def changed_parent(self, tree: Tree) -> None:  # noqa: B027 - matters to one mode only
        """This host has another parent, or none."""

    @abc.abstractmethod
    def on_info(self, tree: Tree, sender: str, info: Info) -> None:
        """An INFO arrived, and MAP is up to date."""

    def on_hello(self, sender: str, hello: Hello) -> None:  # noqa: B027 - matters to one mode only
        """A host told of its cluster."""

    def on_gap(self, tree: Tree) -> None:  # noqa: B027 - matters to one mode only
        """A message arrived, and messages before it are missing."""

    def sent_copies(self, tree: Tree, hosts: Iterable[str]) -> None:  # noqa: B027 - matters to one mode only
        """A message was just sent to hosts."""
