"""`network.json` of a run: a network as `topologies.files` writes it, with the format version of the run's files."""

from pathlib import Path

from runfiles.format import FORMAT, write_whole
from topologies import files
from topologies.network import Network


def write_network(network: Network, path: Path) -> None:
    """Write the network of a run."""
    files.dump(network, path)
    write_whole(path, b'{\n  "format": %d,%s' % (FORMAT, path.read_bytes().removeprefix(b"{")))
