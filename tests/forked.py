"""A function in a forked process, which stands for a program and starts at once."""

import gc
import multiprocessing
import os
import sys


def fork(function, *args, output, **kwargs):
    """Start ``function`` as the leader of a session; all that it prints goes to a file.

    Args:
        output: path of the file.
    """
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_lead, args=(function, args, kwargs, output))
    process.start()
    return process


def _lead(function, args, kwargs, output):
    gc.freeze()  # Garbage of the parent is left to it: the end of a process group would wait.
    os.setsid()
    with open(output, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # Instead of pytest's.
    function(*args, **kwargs)
