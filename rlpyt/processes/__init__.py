"""Processes that work together: how they are started, watched, synchronized and ended.

* ``supervisor``: starts processes, watches them, raises the first error or starts them again, and
  ends them.
* ``watcher``: a thread that does so for a process that is busy in a loop of its own.
* ``child``: one child process. Its heartbeat; its handle in the parent; the task, error report and
  end in the child itself.
* ``primitives``: semaphore, barrier and queue whose waits notice a failure of the processes.
* ``rwlock``: a read-write lock that outlives none of its holders.
* ``launch``: the start of a process, OpenMP threads, CPU affinity, free ports.
* ``allocator``: freed memory stays in the process.
* ``machine``: the CPUs, the memory and the GPUs that a process may use.

The first process of a run makes a ``Supervisor``, and semaphores, barriers and queues of it, and
starts the others with these as arguments. While it waits at them, or in ``Supervisor.wait_for``, it
notices within fractions of a second if another process died, raised or stalled, ends the rest and
raises ``WorkerError``. Processes that wait for each other are ended with it. Where restarts are
allowed, only the process that failed is ended, and a new one takes its place.
"""
