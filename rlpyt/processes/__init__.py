"""Processes that work together: their start, supervision, synchronization and end.

* ``supervisor``: starts, watches and ends processes; raises the first error, or restarts them.
* ``watcher``: a thread that watches processes while the main thread is busy.
* ``child``: one child process: its heartbeat, its handle in the parent, its task, error report and
  end.
* ``primitives``: semaphore, barrier and queue whose waits notice failed processes.
* ``rwlock``: a read-write lock that is released when its holder ends.
* ``launch``: the start of a process, OpenMP threads, CPU affinity, free ports.
* ``allocator``: an allocator that keeps freed memory, and threads that spin only briefly.
* ``machine``: the CPUs, memory and GPUs that a process may use.

The first process of a run makes a ``Supervisor`` with semaphores, barriers and queues, and passes
these to the processes that it starts. While it waits at one of them, or in
``Supervisor.wait_for``, it notices within a fraction of a second if another process died, raised
or stalled; it then ends the rest and raises ``WorkerError``. Where restarts are allowed, only the
failed process is ended, and a new one takes its place.
"""
