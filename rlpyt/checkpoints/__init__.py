"""Checkpoints on disk: directories of plain files, written in the background.

checkpoints = Checkpoints("log/checkpoints", keep=2)
checkpoints.save(runner.state_dict(), step=120_000)
runner.load_state_dict(checkpoints.load())

A checkpoint has a ``manifest.json`` (versions, step, configuration, the state with references to
arrays, the size and sha256 of every file) and safetensors files with the arrays. It contains no
pickles, so loading runs no code. It is written under a temporary name, synced to disk, and then
renamed, so a directory with the final name is complete. It can be copied, moved or deleted
independently of other checkpoints.

A run's state is a tree of dictionaries, each from its owner's ``state_dict``: the runner (seed,
random generators, iteration) with its log and callbacks, the agent (networks), the algorithm
(counters, optimizer) with its replay buffer, and, in synchronous runs, the sampler (environments,
trajectories, acting state). :mod:`rlpyt.runners.checkpointing` decides when to save.

Large arrays in which few rows change, such as replay buffers, are marked as ``Rows``. They are
written in segments; an unchanged segment is a hard link to the file in the previous checkpoint.

* ``store``: the checkpoints of a run, saved and loaded.
* ``tree``: the conversion of a state to JSON values, and arrays by name.
* ``arrays``: the division of arrays into files, and fingerprints that reveal changes.
* ``files``: the thread that writes files, the manifest, and its verification.
"""
