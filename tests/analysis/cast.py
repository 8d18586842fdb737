"""Which protocol keeps which promise in which play, and which mutant breaks it, with the sentence that a user reads."""
# ruff: noqa: E501 - one row, one sentence

from hostagent.contract.promises import Guarantee
from hostagent.protocols.basic import Basic
from hostagent.protocols.best_effort import BestEffort
from hostagent.protocols.eager_reliable import EagerReliable
from hostagent.protocols.lazy_reliable import LazyReliable
from hostagent.protocols.uniform import Uniform
from tests.analysis import mutants as m
from tests.analysis import ordered_mutants as o
from tests.analysis import plays
from tests.mutants.parts import NeverSuspects, NeverTrustsAgain, SuspectsEverybody, with_part

G = Guarantee

RIGHT = [
    (G.NO_CREATION, m.Bare, plays.quiet_day),
    (G.NO_DUPLICATION, m.Bare, plays.everything_twice),
    (G.NO_DUPLICATION, Basic, plays.restart_before_the_ack),
    (G.VALIDITY, Basic, plays.loss),
    (G.VALIDITY, Basic, plays.receiver_crashes),
    (G.VALIDITY, Basic, plays.source_crashes),
    (G.VALIDITY, BestEffort, plays.loss),
    (G.VALIDITY, BestEffort, plays.receiver_crashes),
    (G.VALIDITY, BestEffort, plays.source_crashes),
    (G.AGREEMENT, m.Relay, plays.source_dies_half_way),
    (G.AGREEMENT, EagerReliable, plays.source_dies_half_way),
    (G.AGREEMENT, LazyReliable, plays.source_dies_half_way),
    (G.AGREEMENT, Uniform, plays.source_dies_half_way),
    (G.UNIFORM_AGREEMENT, m.AllAck, plays.deliver_and_die),
    (G.UNIFORM_AGREEMENT, Uniform, plays.deliver_and_die),
    (G.UNIFORM_AGREEMENT, Uniform, plays.source_dies_half_way),
    (G.UNIFORM_AGREEMENT, m.AllAck, plays.quiet_day),
    (G.SINGLE_SOURCE_ORDER, o.Fifo, plays.last_first),
    (G.MULTIPLE_SOURCE_ORDER, o.Sequencer, plays.crossing),
    (G.MULTIPLE_SOURCE_ORDER, o.OneSequencerAGroup, plays.two_groups),
    (G.MULTIPLE_GROUP_ORDER, o.Sequencer, plays.two_groups),
    (G.CAUSAL_ORDER, o.Causal, plays.reply_overtakes),
    (G.CONVERGENCE, Basic, plays.long_partition),
    (G.CONVERGENCE, Basic, plays.source_crashes),
    (G.QUIESCENCE, Basic, plays.many_messages),
    (G.BOUNDED_MEMORY, Basic, plays.many_messages),
    (G.CLUSTER_TREE, m.ChildOfTheSource, plays.quiet_day),
    (G.FAILURE_DETECTION, LazyReliable, plays.away_and_back),
    (G.FAILURE_DETECTION, Uniform, plays.away_and_back),
    (G.FAILURE_DETECTION, LazyReliable, plays.long_partition),
]

# fmt: off
BROKEN = [
    (G.NO_CREATION, m.InventsAMessage, plays.quiet_day, "h2 delivered message 101 of h1 at 0.001 s, but h1 never broadcast it"),
    (G.NO_CREATION, m.DeliversAhead, plays.quiet_day, "h2 delivered message 2 of h1 at 0.001 s, before h1 broadcast it at 2.000 s"),
    (G.NO_CREATION, m.TakesTheCredit, plays.quiet_day, "h2 delivered message 1 of h2 at 0.001 s, before h2 broadcast it at 1.000 s"),
    (G.NO_DUPLICATION, m.ForgetsToDeduplicate, plays.everything_twice, "h2 delivered message 1 of h1 twice, at 0.001 s and 0.005 s"),
    (G.NO_DUPLICATION, m.RemembersOnlyTheLast, plays.everything_twice, "h2 delivered message 1 of h1 twice, at 0.001 s and 0.005 s"),
    (G.NO_DUPLICATION, m.ForgetsAtRestart, plays.restart_before_the_ack, "h2 delivered message 1 of h1 twice, at 0.001 s and 0.545 s, with a restart in between"),
    (G.VALIDITY, m.StopsRetrying, plays.loss, "h3 never delivered message 1 of h1, which h1 broadcast at 0.000 s and which could have reached it by 5.000 s"),
    (G.VALIDITY, m.SkipsTheLastHost, plays.quiet_day, "h3 never delivered message 1 of h1, which h1 broadcast at 0.000 s and which could have reached it by 5.000 s"),
    (G.VALIDITY, m.AcknowledgesBeforeStoring, plays.receiver_crashes, "h3 never delivered message 1 of h1, which h1 broadcast at 0.000 s and which could have reached it by 7.200 s"),
    (G.VALIDITY, m.SourceForgetsAtRestart, plays.source_crashes, "h2 never delivered message 1 of h1, which h1 broadcast at 0.000 s and which could have reached it by 6.000 s"),
    (G.VALIDITY, m.TakesOneAckForAll, plays.loss, "h3 never delivered message 1 of h1, which h1 broadcast at 0.000 s and which could have reached it by 5.000 s"),
    (G.VALIDITY, m.Bare, plays.loss, "h3 never delivered message 1 of h1, which h1 broadcast at 0.000 s and which could have reached it by 5.000 s"),
    (G.AGREEMENT, m.SkipsTheRelay, plays.source_dies_half_way, "h3 never delivered message 2 of h1, which h2 delivered at 1.001 s and which could have reached it by 6.001 s"),
    (G.AGREEMENT, m.RelaysToTheSource, plays.source_dies_half_way, "h3 never delivered message 2 of h1, which h2 delivered at 1.001 s and which could have reached it by 6.001 s"),
    (G.AGREEMENT, m.RelaysOnlyTheFirst, plays.source_dies_half_way, "h3 never delivered message 2 of h1, which h2 delivered at 1.001 s and which could have reached it by 6.001 s"),
    (G.UNIFORM_AGREEMENT, m.DeliversAtOnce, plays.deliver_and_die, "h3 never delivered message 2 of h1, which h1 delivered at 1.000 s before it was gone for good, and which could have reached it by 6.000 s"),
    (G.UNIFORM_AGREEMENT, m.DeliversAfterOneAck, plays.deliver_and_die, "h3 never delivered message 2 of h1, which h2 delivered at 1.001 s before it was gone for good, and which could have reached it by 6.001 s"),
    (G.UNIFORM_AGREEMENT, m.SourceDeliversAtOnce, plays.deliver_and_die, "h3 never delivered message 2 of h1, which h1 delivered at 1.000 s before it was gone for good, and which could have reached it by 6.000 s"),
    (G.UNIFORM_AGREEMENT, m.Relay, plays.deliver_and_die, "h3 never delivered message 2 of h1, which h1 delivered at 1.000 s before it was gone for good, and which could have reached it by 6.000 s"),
    (G.SINGLE_SOURCE_ORDER, o.DoesNotWait, plays.last_first, "h3 delivered message 3 of h1 at 0.001 s and only then, at 0.003 s, message 2, which h1 broadcast before it"),
    (G.SINGLE_SOURCE_ORDER, o.WaitsForThreeAndTurnsThemRound, plays.last_first, "h3 delivered message 3 of h1 at 0.005 s and only then, at 0.005 s, message 2, which h1 broadcast before it"),
    (G.SINGLE_SOURCE_ORDER, o.LosesPatience, plays.last_first, "h3 delivered message 2 of h1 at 0.003 s and only then, at 0.005 s, message 1, which h1 broadcast before it"),
    (G.MULTIPLE_SOURCE_ORDER, o.IgnoresTheNumbers, plays.crossing, "h1 delivered message 3 of h3 at 0.002 s before message 2 of h3 at 0.005 s, but h2 delivered the second at 0.006 s before the first at 0.008 s"),
    (G.MULTIPLE_SOURCE_ORDER, o.EverybodyNumbers, plays.crossing, "h1 delivered message 1 of h3 at 0.001 s before message 3 of h2 at 0.011 s, but h2 delivered the second at 0.000 s before the first at 0.005 s"),
    (G.MULTIPLE_SOURCE_ORDER, o.OneHostSwapsTwo, plays.crossing, "h1 delivered message 1 of h3 at 0.001 s before message 3 of h3 at 0.002 s, but h3 delivered the second at 0.010 s before the first at 0.010 s"),
    (G.MULTIPLE_GROUP_ORDER, o.IgnoresTheNumbers, plays.two_groups, "h1 delivered message 3 of h3 at 0.010 s before message 3 of h4 at 0.011 s, but h2 delivered the second at 0.012 s before the first at 0.018 s"),
    (G.MULTIPLE_GROUP_ORDER, o.OneSequencerAGroup, plays.two_groups, "h1 delivered message 2 of h3 at 0.002 s before message 1 of h3 at 0.024 s, but h2 delivered the second at 0.013 s before the first at 0.020 s"),
    (G.MULTIPLE_GROUP_ORDER, o.OneHostSwapsTwo, plays.two_groups, "h1 delivered message 1 of h4 at 0.001 s before message 2 of h3 at 0.002 s, but h3 delivered the second at 0.016 s before the first at 0.016 s"),
    (G.MULTIPLE_GROUP_ORDER, o.EverybodyNumbers, plays.two_groups, "h1 delivered message 2 of h3 at 0.013 s before message 3 of h4 at 0.014 s, but h2 delivered the second at 0.015 s before the first at 0.018 s"),
    (G.CAUSAL_ORDER, o.BringsNoPast, plays.reply_overtakes, "h3 delivered message 1 of h2 at 0.102 s before message 1 of h1 at 0.201 s, which h2 had delivered at 0.001 s, before h2 broadcast the other at 0.100 s"),
    (G.CAUSAL_ORDER, o.BringsOnlyItsOwn, plays.reply_overtakes, "h3 delivered message 1 of h2 at 0.102 s before message 1 of h1 at 0.201 s, which h2 had delivered at 0.001 s, before h2 broadcast the other at 0.100 s"),
    (G.CAUSAL_ORDER, o.DeliversTheEffectFirst, plays.reply_overtakes, "h3 delivered message 1 of h2 at 0.102 s before message 1 of h1 at 0.102 s, which h2 had delivered at 0.001 s, before h2 broadcast the other at 0.100 s"),
    (G.CONVERGENCE, m.StopsRetrying, plays.long_partition, "h3 never delivered message 1 of h1, which h1 delivered at 0.000 s, though they were connected and without faults until 35.000 s and longer"),
    (G.CONVERGENCE, m.GivesUpAfterThree, plays.long_partition, "h3 never delivered message 1 of h1, which h1 delivered at 0.000 s, though they were connected and without faults until 35.000 s and longer"),
    (G.CONVERGENCE, m.TakesOneAckForAll, plays.long_partition, "h3 never delivered message 1 of h1, which h1 delivered at 0.000 s, though they were connected and without faults until 35.000 s and longer"),
    (G.CONVERGENCE, m.SourceForgetsAtRestart, plays.source_crashes, "h2 never delivered message 1 of h1, which h1 delivered at 0.000 s, though they were connected and without faults until 6.000 s and longer"),
    (G.QUIESCENCE, m.ChattersForEver, plays.many_messages, "h1 sent 50 datagrams between 6.001 s and 11.001 s, with nothing left to do, more than the 0 a second stated"),
    (G.QUIESCENCE, m.AnswersAcknowledgements, plays.many_messages, "h1 sent 2499 datagrams between 6.003 s and 11.001 s, with nothing left to do, more than the 0 a second stated"),
    (G.QUIESCENCE, m.IgnoresAcknowledgements, plays.many_messages, "h1 sent 20 datagrams between 6.000 s and 11.000 s, with nothing left to do, more than the 0 a second stated"),
    (G.BOUNDED_MEMORY, m.KeepsEverythingForEver, plays.many_messages, "h1 kept 21 items at 11.000 s, with nothing left to do, more than the 12 stated"),
    (G.BOUNDED_MEMORY, m.KeepsWhatWasAcknowledged, plays.many_messages, "h1 kept 31 items at 11.000 s, with nothing left to do, more than the 12 stated"),
    (G.BOUNDED_MEMORY, m.NeverForgetsItsPayloads, plays.many_messages, "h1 kept 31 items at 11.000 s, with nothing left to do, more than the 12 stated"),
    (G.CLUSTER_TREE, m.KeepsToItself, plays.quiet_day, "h3 has no parent, in the tree of h1 when the run ended at 14.000 s, though there was news at 0.000 s and no fault since"),
    (G.CLUSTER_TREE, m.ChildOfTheHostBefore, plays.quiet_day, "h3 is a child of h2, but h1 leads their cluster, in the tree of h1 when the run ended at 14.000 s, though there was news at 0.000 s and no fault since"),
    (G.CLUSTER_TREE, m.ChildrenOfEachOther, plays.quiet_day, "h2 is a child of h3 is a child of h2, in a circle, in the tree of h1 when the run ended at 14.000 s, though there was news at 0.000 s and no fault since"),
    (G.CLUSTER_TREE, m.SourceIsAChild, plays.quiet_day, "h1 is the source, but a child of h2, in the tree of h1 when the run ended at 14.000 s, though there was news at 0.000 s and no fault since"),
    (G.FAILURE_DETECTION, with_part(LazyReliable, "detector", NeverSuspects), plays.away_and_back, "h1 did not suspect h3, which was silent from 1.000 s to 11.000 s"),
    (G.FAILURE_DETECTION, with_part(LazyReliable, "detector", NeverTrustsAgain), plays.away_and_back, "h1 suspected h3 from 11.000 s to 21.000 s, though both ran and were connected"),
    (G.FAILURE_DETECTION, with_part(LazyReliable, "detector", SuspectsEverybody), plays.quiet_day, "h2 suspected h1 from 3.003 s to 14.000 s, though both ran and were connected"),
    (G.CLUSTER_TREE, m.LeavesAgain, plays.quiet_day, "h2 has no parent, in the tree of h1 when the run ended at 14.000 s, though there was news at 0.000 s and no fault since"),
]
# fmt: on
