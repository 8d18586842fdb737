"""The datagrams between hosts, from the packets table: when each left the link of its sender, and when it arrived on a host's link.

Only histories of runs whose promise is about datagrams have them (`Promise.needs_transits`), as there may be a million. Arrow joins the
two sightings of each datagram; the result is a tuple of values, since checkers are plain functions that know no tables.

A copy of a datagram to a group is expected at each initial member of the group other than the sender. A host that asked to join or to leave
the group in the run was a member for a part of the time only, so of such a host only the copies that arrived are counted.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from analysis.judging.history import MembershipRequest, Transit
from hostagent.contract.messages import Purpose
from runfiles.reading import RunInput
from topologies.network import group_name

_PACKET: Final = ["sender", "packet"]
_ABOUT: Final = ["destination", "origin", "sequence", "kind", "purpose"]
_COPY: Final = [*_PACKET, "to"]


def recorded(run: RunInput, requests: Iterable[MembershipRequest] = ()) -> tuple[Transit, ...] | None:
    """The transits of a run that was analysed, if its promise is about them; else None."""
    place = run.directory / "tables" / "packets.parquet"
    return transits(run, place, requests) if run.run.promise.needs_transits and place.exists() else None


def transits(run: RunInput, place: Path, requests: Iterable[MembershipRequest]) -> tuple[Transit, ...]:
    """The transits of a run from its packets table, in the order in which they left."""
    hosts = pa.array(run.network.hosts)
    on_access_links = ds.field("packet").is_valid() & (ds.field("source").isin(hosts) | ds.field("target").isin(hosts))
    seen = ds.dataset(place).to_table(["source", "target", "at_ns", *_PACKET, *_ABOUT], filter=on_access_links)
    left = _first(seen.filter(pc.equal(seen["source"], seen["sender"])), [*_PACKET, *_ABOUT], "left_ns")
    # While routes change, a copy to a group may come back to its sender, which is no transit.
    is_arrival = pc.and_(pc.is_in(seen["target"], value_set=hosts), pc.not_equal(seen["target"], seen["sender"]))
    into_hosts = seen.filter(is_arrival)
    arrived = _first(into_hosts.append_column("to", into_hosts["target"]), _COPY, "arrived_ns")
    expected = left.join(_receivers(run, requests), "destination", join_type="inner").select(_COPY)
    expected = expected.filter(pc.not_equal(expected["to"], expected["sender"]))
    copies = pa.concat_tables([expected, arrived.select(_COPY)]).group_by(_COPY).aggregate([])
    found = copies.join(left, _PACKET, join_type="inner").join(arrived, _COPY, join_type="left outer")
    carries = pc.not_equal(found["purpose"], Purpose.CONTROL.name.lower())
    shared = pc.invert(pc.is_in(found["destination"], value_set=hosts))
    found = found.append_column("carries", carries).append_column("shared", shared)
    found = found.sort_by([("left_ns", "ascending"), ("sender", "ascending"), ("to", "ascending")])
    return tuple(map(Transit, *(found[name].to_pylist() for name in Transit._fields)))


def _first(seen: pa.Table, keys: list[str], name: str) -> pa.Table:
    """The first sighting of each datagram: a duplicate that the network made is no other datagram."""
    return seen.group_by(keys).aggregate([("at_ns", "min")]).rename_columns([*keys, name])


def _receivers(run: RunInput, requests: Iterable[MembershipRequest]) -> pa.Table:
    """The hosts at which a datagram to each destination is expected."""
    asked = {(request.group, request.host) for request in requests}
    rows = [(host, host) for host in run.network.hosts]
    rows += [
        (group_name(number), host) for number, members in run.members.items() for host in members if (number, host) not in asked
    ]
    destinations, hosts = zip(*rows, strict=True)
    return pa.table({"destination": destinations, "to": hosts})
