"""Pairs whose two launches are alive together and take turns of one step."""

import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from runners import turnserver
from runners.bench import SOCKET_VARIABLE, Bench
from runners.child import Child
from runners.guard import Ended
from runners.pair import as_pair, in_order
from runners.spec import Limits
from runners.trial import Trial
from runners.turnserver import TurnsEnded
from service.domain import Arrangement, Case, Failure, FailureReason, Role
from service.stats.summary import num_warmup
from service.usecases.recording import PairResult

_MIN_TURNS = 200
_MAX_STANDARD_ERROR = 0.01
_TURNS_SHARE = 0.9  # of a trial's time limit; a tenth is left to write checkpoints and to leave
_POLL_S = 0.05
_NOTICE_S = 3.0  # the turn server sees a dead rank at once; so long it may take to say so


def measure_lockstep(bench: Bench, case: Case, first: Role, seed: int) -> PairResult:
    """A pair in lock-step, whose turns end in time for its trials to end within theirs."""
    started_at = datetime.now(UTC)
    for side in bench.sides.values():  # both, before anything of either is alive
        side.restore()
    warmup = num_warmup(_MIN_TURNS) if case.warmup_steps is None else case.warmup_steps
    with bench.scratch() as folder, ExitStack() as stack:
        # Names of equal length: a side must not be able to tell which one it is.
        sockets = {role: f"{folder}/{number}" for number, role in enumerate(in_order(first))}
        server = _Server(
            turnserver.Order(
                sockets={role.value: path for role, path in sockets.items()},
                world_size=case.world_size,
                num_warmup_turns=warmup,
                min_turns=_MIN_TURNS,
                max_standard_error=_MAX_STANDARD_ERROR,
                time_limit_s=case.timeout_s * _TURNS_SHARE,
                start_limit_s=bench.limits.start_s,
                stall_s=bench.limits.stall_s,
                seed=seed,
                account=bench.account.name,
            )
        )
        stack.callback(server.release)
        server.await_sockets(sockets.values())
        trials: dict[Role, Trial] = {}
        for role in in_order(first):
            trials[role] = Trial(bench, case, role, folder, {SOCKET_VARIABLE: sockets[role]})
            stack.callback(trials[role].cancel)
        turns = _await_turns(bench, server, trials)
        seen = _end_trials(bench, turns, trials)
        results = {
            role: trial.result(
                seen=seen.get(role),
                num_warmup_steps=warmup,
                steps_per_turn=turns.steps_per_turn,
                max_steps=warmup + turns.num_turns * turns.steps_per_turn,
            )
            for role, trial in trials.items()
        }
    return as_pair(Arrangement.LOCKSTEP, first, turns.steps_per_turn, started_at, results)


class _Server(Child):
    """The turn server's process."""

    def __init__(self, order: turnserver.Order) -> None:
        super().__init__("runners.turnserver", order)

    def await_sockets(self, paths: Collection[str]) -> None:
        """Wait until the server listens, or is gone, which its outcome will say."""
        while self.exit_code is None and not all(Path(path).is_socket() for path in paths):
            time.sleep(_POLL_S / 10)

    def outcome(self) -> turnserver.Outcome:
        """How the turns ended; a server that still runs is told to let the sides go."""
        answer = self.answer()
        if answer is None:
            return turnserver.Outcome(ended=TurnsEnded.UNSERVED)
        return turnserver.Outcome(**answer | {"ended": TurnsEnded(answer["ended"])})


def _await_turns(bench: Bench, server: _Server, trials: Mapping[Role, Trial]) -> turnserver.Outcome:
    """Wait until the turns are over. A side that ends without having met the server ends them."""
    ended_since: float | None = None
    while server.exit_code is None:
        bench.check()
        if any(trial.outcome() for trial in trials.values()):
            ended_since = ended_since or time.monotonic()
            if time.monotonic() - ended_since > _NOTICE_S:
                break
        time.sleep(_POLL_S)
    return server.outcome()


def _end_trials(
    bench: Bench, turns: turnserver.Outcome, trials: Mapping[Role, Trial]
) -> dict[Role, Failure]:
    """Bring both trials to their end; returns the failures that only the turn server could see."""
    seen: dict[Role, Failure] = {}
    if turns.ended is TurnsEnded.UNSERVED:
        detail = "The process that hands out the turns was killed."
        seen = dict.fromkeys(trials, Failure(reason=FailureReason.INTERNAL, detail=detail))
    if turns.side is not None and turns.ended in (TurnsEnded.STALLED, TurnsEnded.NO_SHOW):
        culprit = trials[Role(turns.side)]
        if culprit.outcome() is None:  # else it ended by itself meanwhile, and its end says why
            culprit.cancel()
            seen[culprit.role] = _stall(turns, bench.limits)
    grace_s = bench.limits.stall_s if turns.ended.is_orderly else bench.limits.kill_grace_s
    for role, trial in trials.items():
        outcome = trial.wait(grace_s)
        if outcome.ended is Ended.RELEASED and turns.ended.is_orderly:
            detail = f"It did not end within {grace_s:.0f} s after its last turn."
            seen[role] = Failure(reason=FailureReason.STALLED, detail=detail)
    return seen


def _stall(turns: turnserver.Outcome, limits: Limits) -> Failure:
    if turns.ended is TurnsEnded.STALLED:
        detail = f"Rank {turns.rank} was silent for {limits.stall_s:.0f} s in its turn."
    else:
        detail = (
            f"It did not reach its first step within {limits.start_s:.0f} s. A trainer calls "
            "`turns.step()` once per step."
        )
    return Failure(reason=FailureReason.STALLED, detail=detail)
