"""When an evaluation in workers has completed enough trajectories."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rlpyt.samplers._workers import TrajInfoQueue
from rlpyt.utils.processes.child import Heartbeat
from rlpyt.utils.processes.primitives import Barrier
from rlpyt.utils.processes.supervisor import Supervisor


def stop_at_limit(
    pool: Supervisor,
    queue: TrajInfoQueue,
    limit: int,
    heartbeats: Sequence[Heartbeat],
    end: Barrier,
    stop: Any,
    check_s: float,
) -> None:
    """Wait until the workers have completed ``limit`` trajectories or have ended by themselves.

    Workers are not in step with each other. Which trajectories count shall not depend on that: all
    workers must have passed the time step at which there are enough.

    Args:
        pool: of the workers.
        queue: of their trajectory infos.
        limit: number of trajectories.
        heartbeats: of the workers which evaluate.
        end: where all workers come in the end.
        stop: shared value, set to True if there are enough.
        check_s: seconds between two looks.
    """

    def is_settled(block: bool = True, timeout: float | None = None) -> bool:
        # The steps first: what was completed in them has been counted by then.
        n_steps = min(heartbeat.values[Heartbeat.STEPS] for heartbeat in heartbeats)
        queue.receive()
        last = queue.time_of(limit)
        if end.n_waiting == end.parties - 1:
            return True
        if last is not None and n_steps > last:
            stop.value = True
            return True
        time.sleep(check_s)
        return False

    pool.wait_for(is_settled)
