"""SPO with one thing broken."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

from hostagent.protocols.spo.losses import Losses
from hostagent.protocols.spo.protocol import Spo
from hostagent.protocols.spo.receipts import Receipts
from tests.mutants.mutant import Mutant
from tests.mutants.parts import with_part


class DeliversWhenPreAcknowledged(Receipts):
    def acknowledge(self):
        self.pal = [[1 << 31] * len(self.logs) for _ in self.logs]
        return super().acknowledge()


class DeliversOnAcceptance(DeliversWhenPreAcknowledged):
    def pre_acknowledge(self):
        known, self.al = self.al, self.pal
        super().pre_acknowledge()
        self.al = known


class TakesOneAcknowledgementForAll(Receipts):
    def learn(self, place, stated):
        for other in range(len(self.logs)):
            super().learn(other, stated)


class DeliversEverything(Spo):
    def _owe(self, place, pdu):
        super()._owe(place, pdu)
        if pdu.sequence and self._receipts.me not in self._receipts.places(pdu):
            self.env.deliver(pdu.origin, pdu.sequence, pdu.payload)


class AcceptsWhatArrives(Receipts):
    def _is_acceptable(self, place, log, pdu):
        return True


class ForgetsTheLogsAtRestart(Receipts):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("pdu/")})


class ForgetsTheNumbersAtRestart(Receipts):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("from/")})


class ForgetsItsPdusAtRestart(Spo):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("sent/")})


class ForgetsWhatWaitsAtRestart(Spo):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("waiting/")})


class NeverAnswers(Spo):
    def _answer(self):
        pass

    def _answer_later(self):
        pass


class AsksForNothing(Losses):
    def look(self):
        pass


class SendsNothingAgain(Spo):
    def _send_again(self, place, request):
        pass


class AsksForNoStatus(Spo):
    def _watch(self):
        pass


class AsksOnce(Losses):
    def _ask_again(self, place):
        self._asked.pop(place)


class WaitsForEachOther(Receipts):
    """As the paper's accept procedure has it: TREQ follows only when a PDU is accepted."""

    def accept(self):
        found = True
        while found:
            found = False
            for place, log in enumerate(self.logs):
                pdu = self._first_early(log)
                if pdu is None or (pdu.tseq != log.treq and pdu.pseq[self.me] != log.preq):
                    continue
                if all(number <= self.logs[about].treq for about, number in enumerate(pdu.ack) if about != place):
                    log.order.remove(pdu.tseq)
                    log.order.sort()
                    del log.early[pdu.tseq]
                    self._take(place, pdu)
                    found = True
                    yield place, pdu


class IgnoresTheSecondCondition(Losses):
    def look(self):
        for log in self._receipts.logs:
            log.heard_tseq = log.treq
        super().look()


MUTANTS = (
    Mutant(with_part(Spo, "_receipts", DeliversOnAcceptance), "A message is delivered when it is accepted."),
    Mutant(
        with_part(Spo, "_receipts", DeliversWhenPreAcknowledged),
        "A message is delivered when it is pre-acknowledged.",
        harmless="All destinations have received it then, which is all that safe asks for; the paper waits until all know that.",
    ),
    Mutant(with_part(Spo, "_receipts", TakesOneAcknowledgementForAll), "What one entity has is taken to be what all have."),
    Mutant(DeliversEverything, "Entities deliver what is not for them."),
    Mutant(with_part(Spo, "_receipts", AcceptsWhatArrives), "What arrives is accepted, whatever is missing before it."),
    Mutant(with_part(Spo, "_receipts", ForgetsTheLogsAtRestart), "A host that restarts forgets what it has not delivered."),
    Mutant(with_part(Spo, "_receipts", ForgetsTheNumbersAtRestart), "A host that restarts forgets what it has received."),
    Mutant(ForgetsItsPdusAtRestart, "A host that restarts forgets the PDUs that others may lack."),
    Mutant(
        ForgetsWhatWaitsAtRestart,
        "A host that restarts forgets the messages that wait for the transmission condition.",
        parameters={"window": 150},
    ),
    Mutant(NeverAnswers, "Entities without data say nothing."),
    Mutant(with_part(Spo, "_losses", AsksForNothing), "Lost PDUs are not asked for."),
    Mutant(SendsNothingAgain, "Requests are not answered."),
    Mutant(AsksForNoStatus, "Nobody asks for an acknowledgement that does not come."),
    Mutant(
        with_part(Spo, "_losses", AsksOnce),
        "A request that is not answered is not repeated.",
        harmless="The next PDU or status of that sender shows the gap again, and whoever waits for an acknowledgement asks for a status.",
    ),
    Mutant(with_part(Spo, "_receipts", WaitsForEachOther), "TREQ follows only when a PDU is accepted, as the paper has it."),
    Mutant(with_part(Spo, "_losses", IgnoresTheSecondCondition), "LC2 is not looked at."),
)
