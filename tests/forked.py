"""Functions in forked processes, which start at once: a program, or the ranks of one."""

import gc
import multiprocessing
import os
import sys

import torch


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
    os.setsid()
    with open(output, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # Instead of pytest's.
    function(*args, **kwargs)


def in_two_ranks(function, store, *args):
    """Return what ``function(rank, *args)`` returns in each of the two processes of a group.

    Args:
        store: path of a new file, through which the processes connect.
    """
    with multiprocessing.get_context("fork").Pool(2) as pool:
        calls = [(function, rank, str(store), args) for rank in range(2)]
        return pool.starmap_async(_in_group, calls, chunksize=1).get(timeout=120)


def _in_group(function, rank, store, args):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2
    )
    result = function(rank, *args)
    gc.collect()  # A wrapper that outlives its group can deadlock with the group's threads.
    torch.distributed.destroy_process_group()
    return result
