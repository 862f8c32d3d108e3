"""The worker's end of a guard: starts one, learns how its command ended, lets go of it."""

import time
from collections.abc import Callable

from runners import guard
from runners.child import Child
from runners.guard import Ended, Order, Outcome

_POLL_S = 0.05


class Guarded:
    """A command under a guard of its own."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._guard = Child("runners.guard", order)
        self._outcome: Outcome | None = None

    @property
    def root(self) -> int:
        """The process below which all of the command's are: the guard."""
        return self._guard.pid

    def poll(self) -> Outcome | None:
        """How the command ended; None while it runs."""
        if self._outcome is None and self._guard.exit_code is not None:
            self._outcome = self._read_outcome()
        return self._outcome

    def wait(self, check: Callable[[], None]) -> Outcome:
        """How the command ended. Raises what `check` raises."""
        while (outcome := self.poll()) is None:
            check()
            time.sleep(_POLL_S)
        return outcome

    def cancel(self) -> Outcome:
        """End the command, if it still runs; returns when nothing of it is alive."""
        self._guard.release()
        outcome = self.poll()
        assert outcome is not None
        return outcome

    def _read_outcome(self) -> Outcome:
        answer = self._guard.answer()
        if answer is not None:
            return Outcome(**answer | {"ended": Ended(answer["ended"])})
        # The guard itself was killed and could not clean up.
        survivors = guard.sweep(self._order.tag, self._order.kill_grace_s)
        detail = f"Its guard ended with {self._guard.exit_code}."
        return Outcome(ended=Ended.UNGUARDED, num_survivors=survivors, detail=detail)
