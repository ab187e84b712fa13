"""Processes that work together: how they are started, watched, synchronized and ended.

* ``supervisor``: the parent's side. Starts processes, watches them, collects the first error, and
  ends them.
* ``child``: the child's side. Heartbeat, error report, end with the parent.
* ``primitives``: semaphore, barrier and queue whose waits notice failures of the processes.
* ``rwlock``: a read-write lock that the death of its holder does not leave locked.
* ``shared_array``: arrays in shared memory, for each start method.
* ``launch``: start methods, CPU affinity, OpenMP threads, ranks of ``torchrun``.
"""
