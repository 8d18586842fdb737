"""Every mutant of every protocol: what is wrong with it, and for a few why that breaks no promise."""

from hostagent.protocols.best_effort import BestEffort
from hostagent.protocols.cluster_tree import ClusterTree
from hostagent.protocols.eager_reliable import EagerReliable
from hostagent.protocols.fan import Fan
from hostagent.protocols.lazy_reliable import LazyReliable
from hostagent.protocols.propagation_graph.protocol import PropagationGraph
from hostagent.protocols.uniform import Uniform
from tests.analysis import mutants as basic
from tests.mutants import (
    cluster_tree,
    counter,
    fan,
    grouped,
    linked,
    non_atomic,
    optimistic,
    parts,
    propagation,
    sequencer,
    spo,
    timestamp,
    token_site,
    totem,
    trans_total,
    two_phase,
    watchful,
)
from tests.mutants.mutant import Mutant
from tests.mutants.parts import with_part

LITERAL = {"mode": "literal"}

BASIC = (
    Mutant(basic.StopsRetrying, "What was sent is taken for received: nothing is repeated."),
    Mutant(basic.GivesUpAfterThree, "Nothing is repeated after three repetitions in all."),
    Mutant(basic.SkipsTheLastHost, "The last host is never sent anything."),
    Mutant(basic.TakesOneAckForAll, "When one host has acknowledged, all are taken to have the message."),
    Mutant(basic.AcknowledgesBeforeStoring, "A copy is acknowledged at once and delivered half a second later, from memory."),
    Mutant(basic.SourceForgetsAtRestart, "A source that restarts forgets the messages that were not acknowledged."),
    Mutant(basic.ForgetsAtRestart, "A host that restarts forgets what it delivered."),
    Mutant(basic.IgnoresAcknowledgements, "Acknowledgements are not looked at, so copies are repeated for ever."),
    Mutant(basic.ChattersForEver, "Every host sends something ten times a second, whatever there is to do."),
    Mutant(basic.KeepsEverythingForEver, "Every host keeps the number of each message that ever arrived."),
    Mutant(basic.NeverForgetsItsPayloads, "A message that all have acknowledged is kept."),
)

LINKS = {
    parts.RepeatsNothing: "Letters are not repeated.",
    parts.RepeatsThreeTimes: "Nothing is repeated after three repetitions in all.",
    parts.TakesOneAcknowledgementForAll: "When one host has acknowledged a letter, all are taken to have it.",
    parts.IgnoresAcknowledgements: "Acknowledgements are not looked at, so letters are repeated for ever.",
    parts.ForgetsLettersAtRestart: "A host that restarts forgets the letters that were not acknowledged.",
    parts.NumbersAnewAtRestart: "A host that restarts begins its numbers again, and its letters are taken for old ones.",
    parts.SaysThatAllHasArrived: "Each letter says that all letters before it were acknowledged.",
    parts.KeepsEveryLetter: "A letter that all have acknowledged is kept.",
    parts.SkipsTheLastHost: "The last host is sent no letters.",
    parts.AcknowledgesAnotherLetter: "The letter after the one that arrived is acknowledged.",
}


def _links(core, *mistakes):
    return tuple(Mutant(with_part(core, "links", mistake), LINKS[mistake]) for mistake in mistakes)


BEST_EFFORT = (
    *_links(BestEffort, *LINKS),
    Mutant(linked.DeliversEachLetterTwice, "Every letter is delivered twice."),
    Mutant(linked.DeliversTheNextMessage, "A message is delivered under the number of the next one."),
    Mutant(linked.SourceDoesNotDeliver, "A source does not deliver its own messages."),
    Mutant(
        linked.DeliversWithoutLooking,
        "What was delivered before is not looked up.",
        harmless="The links hand over each letter once, also across restarts, and a message is one letter.",
    ),
    Mutant(
        with_part(BestEffort, "links", parts.ReceivesEveryCopy),
        "The links hand over a letter as often as it arrives.",
        harmless="What was delivered is stored and looked up before the next delivery.",
    ),
)

EAGER = (
    Mutant(linked.RelaysNothing, "Nobody passes anything on."),
    Mutant(linked.RelaysTheFirstMessageOnly, "Only the first message of each origin is passed on."),
    Mutant(linked.RelaysToTheOrigin, "A message is passed on to its origin only."),
    Mutant(linked.RelaysToTheNextHost, "A message is passed on to one host only."),
    Mutant(linked.RelaysWithoutDelivering, "What another than the origin passed on is not taken."),
    Mutant(linked.DeliversEveryCopy, "Each copy of a message is delivered."),
    Mutant(linked.ForgetsItsDeliveriesAtRestart, "A host that restarts forgets what it delivered."),
    *_links(
        EagerReliable,
        *(parts.RepeatsNothing, parts.TakesOneAcknowledgementForAll, parts.IgnoresAcknowledgements, parts.SkipsTheLastHost),
    ),
)

DETECTOR = {
    parts.NeverSuspects: "Nobody is ever suspected.",
    parts.NeverTrustsAgain: "Who was suspected once is suspected for ever.",
    parts.SuspectsEverybody: "Signs of life are not looked at, so everybody is suspected.",
}


def _detector(core):
    return tuple(Mutant(with_part(core, "detector", mistake), wrong) for mistake, wrong in DETECTOR.items())


LAZY = (
    Mutant(watchful.NeverRelays, "Nothing is ever passed on."),
    Mutant(watchful.RelaysNothingOnSuspicion, "A suspicion has no consequences for what came before it."),
    Mutant(watchful.KeepsNothing, "Nothing is kept that may have to be passed on."),
    Mutant(watchful.KeepsOnlyInMemory, "What may have to be passed on is forgotten at a restart."),
    Mutant(watchful.DropsWithEveryHeartbeat, "Every heartbeat is taken to say that everybody has everything."),
    Mutant(watchful.NeverDrops, "What everybody has is kept."),
    Mutant(watchful.RelaysOnlyTheLastMessage, "Of what came from a host that is suspected only the last message is passed on."),
    Mutant(
        watchful.DoesNotRelayWhatComesLate,
        "What comes from a host that is suspected already is kept and not passed on.",
        harmless="It is a sign of life: its sender is trusted from then on, and when that is silent again, what was kept is passed on.",
    ),
    Mutant(watchful.DeliversAgainAfterRestart, "A host that restarts forgets what it received and delivered."),
    *_detector(LazyReliable),
    *_links(LazyReliable, parts.RepeatsNothing, parts.TakesOneAcknowledgementForAll),
)

UNIFORM = (
    Mutant(watchful.ByMajority, "A message is delivered when more than half of the hosts have it."),
    Mutant(
        watchful.ByMajorityOfTheTrusted, "A message is delivered when more than half of the hosts that are not suspected have it."
    ),
    Mutant(watchful.AtOnce, "A message is delivered as soon as it arrives, and passed on."),
    Mutant(watchful.AfterOneAcknowledgement, "A message is delivered when one other host has it."),
    Mutant(watchful.AsBestEffort, "A message is delivered as soon as it arrives, and not passed on."),
    Mutant(watchful.IgnoresSuspicion, "Hosts that are suspected are waited for."),
    Mutant(watchful.OriginDeliversAtOnce, "The origin delivers before it sends; the others wait."),
    Mutant(watchful.LooksAgainOnLettersOnly, "A suspicion is noted, and what waited for that host alone goes on waiting."),
    Mutant(watchful.ForgetsPendingAtRestart, "A host that restarts forgets the messages that it has not delivered."),
    Mutant(watchful.ForgetsAcknowledgementsAtRestart, "A host that restarts forgets who has a message."),
    Mutant(watchful.NeverForgetsAcknowledgements, "Who had a message is kept when it is delivered."),
    Mutant(watchful.PassesNothingOn, "Only the origin is told who has a message."),
    *_detector(Uniform),
    *_links(Uniform, parts.RepeatsNothing, parts.TakesOneAcknowledgementForAll),
)

TREE = {
    cluster_tree.NeverAttaches: "No host ever looks for a parent.",
    cluster_tree.FillsNoGaps: "Nobody fills anybody's gaps.",
    cluster_tree.DeliversEveryCopy: "Each copy of a message is delivered.",
}
"""Mistakes that are tried in both modes; the other tree is slow in virtual time, as everybody speaks to everybody."""


def _exchange(mistake, wrong, harmless="", **parameters):
    return Mutant(with_part(ClusterTree, "exchange", mistake), wrong, harmless, parameters)


CLUSTER_TREE = (
    *(Mutant(core, wrong) for core, wrong in TREE.items()),
    Mutant(cluster_tree.ForgetsItsMessagesAtRestart, "A host that restarts forgets the messages that others may lack."),
    Mutant(cluster_tree.ForgetsItsDeliveriesAtRestart, "A host that restarts forgets what it delivered."),
    Mutant(cluster_tree.PrunesWhatItHas, "A host forgets each message that it has itself."),
    Mutant(cluster_tree.NeverPrunes, "A message that everybody has is kept."),
    Mutant(cluster_tree.IgnoresTheCostBit, "Every packet is taken to be expensive, so every host is a cluster."),
    _exchange(cluster_tree.NeverProbes, "No leader reports to a host outside that is not its neighbour in the tree."),
    _exchange(cluster_tree.NeverMissesItsParent, "A parent that says nothing is not given up."),
    _exchange(cluster_tree.TellsItsClusterNothing, "Hosts of a cluster are told nothing but messages."),
    _exchange(
        cluster_tree.AsksForNoGaps,
        "A host that sees a gap does not ask for what is missing.",
        harmless="Its next report to its parent, or its question whether the parent lives, tells of the gap too, and the parent fills it: "
        "within a second or two, and not within a twentieth.",
    ),
    _exchange(
        cluster_tree.KeepsQuietChildren, "A child that says nothing is not dropped, so nobody else of its cluster is probed."
    ),
    *(Mutant(core, wrong, parameters=LITERAL) for core, wrong in TREE.items()),
)

GROUPED = (
    Mutant(grouped.SendsToNonMembers, "A message to a group is sent to everybody."),
    Mutant(grouped.DeliversItsOwnAsANonMember, "A source delivers its own messages to groups that it is not in."),
    Mutant(grouped.ForgetsAMember, "The last member of a group is sent nothing that is for the group."),
    Mutant(
        with_part(BestEffort, "links", grouped.ForgetsGroupsAtRestart), "After a restart, letters to a group go to everybody."
    ),
    Mutant(grouped.RelaysToEverybody, "A message to a group is passed on to everybody."),
    Mutant(grouped.RelaysToAnotherGroup, "A message to a group is passed on to another group."),
    Mutant(grouped.RelaysOutsideTheGroup, "What came from a host that is suspected is passed on to everybody."),
    Mutant(grouped.WaitsForEverybody, "A message to a group is delivered when every host of the run has passed it on."),
    Mutant(grouped.WaitsForTheFirstMembers, "Only the first two members of a group are waited for."),
)

FAN = (
    Mutant(fan.DeliversOutOfOrder, "What arrives is delivered at once, whatever its number."),
    Mutant(fan.DeliversEveryCopy, "A copy of a message that was delivered is delivered again."),
    Mutant(with_part(Fan, "received", fan.ForgetsWhatItDelivered), "A host that restarts forgets what it delivered."),
    Mutant(fan.ForgetsItsMessagesAtRestart, "A source that restarts forgets its messages."),
    Mutant(fan.GivesUpWhatItMissed, "A host that restarts goes on with the first message that it hears, at level 3 too."),
    Mutant(with_part(Fan, "received", fan.NeverAsks), "Nobody asks for what is missing."),
    Mutant(
        with_part(Fan, "received", fan.AsksForTheFirstOnly), "A host asks for the first message of a source and for no other."
    ),
    Mutant(fan.AnswersNobody, "A source does not answer requests."),
    Mutant(fan.SendsNoNullMessages, "A source says nothing between its messages."),
    Mutant(fan.SpeaksOnlyOnce, "A source sends one null message after each message and no more."),
    Mutant(fan.SkipsTheLastHost, "The last host takes nothing."),
)

PROPAGATION = (
    Mutant(propagation.SkipsItsLastChild, "A host passes nothing on to its last child."),
    Mutant(propagation.DeliversItsOwnAtOnce, "A source delivers its own messages before it sends them."),
    Mutant(propagation.SendsFromTheSource, "Each source sends to all members itself."),
    Mutant(propagation.DeliversAtExtraHosts, "Hosts that only pass a message on deliver it too."),
    Mutant(propagation.SendsToAnyMember, "A source sends to the first member, which passes on what it can."),
    *(
        Mutant(with_part(PropagationGraph, "_edges", mistake), wrong)
        for mistake, wrong in {
            propagation.ForgetsItemsAtRestart: "A host that restarts forgets what others may lack.",
            propagation.NumbersAnewAtRestart: "A host that restarts begins its numbers again.",
            propagation.SendsNoNullMessages: "Nobody says how many items there are.",
            propagation.AnswersNoRequests: "Nobody answers requests.",
            propagation.NeverForgetsItems: "What its receiver has is kept.",
            propagation.SaysThatAllHasArrived: "A host that hears of items says that it has them.",
        }.items()
    ),
    Mutant(propagation.in_order(propagation.HandsOnWhatComes), "Items are handled as they come, whatever their numbers."),
    Mutant(propagation.in_order(propagation.ForgetsWhatArrivedAtRestart), "A host that restarts forgets what arrived."),
)

MUTANTS = (
    *BASIC,
    *BEST_EFFORT,
    *EAGER,
    *LAZY,
    *UNIFORM,
    *CLUSTER_TREE,
    *GROUPED,
    *FAN,
    *PROPAGATION,
    *non_atomic.MUTANTS,
    *two_phase.MUTANTS,
    *sequencer.MUTANTS,
    *timestamp.MUTANTS,
    *trans_total.MUTANTS,
    *token_site.MUTANTS,
    *spo.MUTANTS,
    *totem.MUTANTS,
    *counter.MUTANTS,
    *optimistic.MUTANTS,
)
