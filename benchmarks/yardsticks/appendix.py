"""Appendix I of the third paper line by line, slow and with sets as in the text: the yardstick for the generator of propagation graphs."""

from collections.abc import Mapping, Sequence

Groups = Mapping[str, tuple[str, ...]]


def forest(groups: Groups, sites: Sequence[str]) -> dict[str, str]:
    """Main of appendix I: the parent of every site. Of sites that occur equally often, the one that is listed first is taken.

    Two slips are put right: sites that become children without a call of `new_subtree` are marked too, and the groups that are added to G
    are those with a site in S.
    """
    parents: dict[str, str] = {}
    unmarked_groups, unmarked_sites = set(groups), list(sites)

    def most_frequent(candidates: Sequence[str], among: set[str]) -> str:
        return max(candidates, key=lambda site: sum(site in groups[group] for group in among))

    def new_subtree(subroot: str) -> None:
        if subroot in unmarked_sites:
            unmarked_sites.remove(subroot)
        intersecters = [s for s in unmarked_sites if any(s in groups[g] and subroot in groups[g] for g in unmarked_groups)]
        unmarked_groups.difference_update([g for g in unmarked_groups if subroot in groups[g]])
        connected = {g for g in unmarked_groups if any(s in intersecters for s in groups[g])}
        size = -1
        while size != len(connected):
            size = len(connected)
            reached = {s for g in connected for s in groups[g]}
            connected |= {g for g in unmarked_groups if any(s in reached for s in groups[g])}
        partitions = _partitions(groups, connected)
        divided = {s for g in connected for s in groups[g]}
        for site in intersecters:
            if site not in divided:
                parents[site] = subroot
                unmarked_sites.remove(site)
        for partition in partitions:
            inside = [s for s in intersecters if any(s in groups[g] for g in partition)]
            new_site = most_frequent(inside, partition)
            parents[new_site] = subroot
            new_subtree(new_site)

    while unmarked_groups:
        root = most_frequent([s for s in sites if any(s in groups[g] for g in unmarked_groups)], unmarked_groups)
        parents[root] = ""
        new_subtree(root)
    return {site: parents.get(site, "") for site in sites}


def _partitions(groups: Groups, connected: set[str]) -> list[set[str]]:
    """Groups so that no group in a partition intersects a group in another: partitions that do are merged until none does."""
    partitions = [{group} for group in sorted(connected)]
    for one in partitions[:]:
        touching = [p for p in partitions if any({*groups[a]} & {*groups[b]} for a in one for b in p)]
        partitions = [p for p in partitions if p not in touching] + [set().union(*touching)]
    return partitions
