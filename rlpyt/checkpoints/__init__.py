"""Checkpoints of a run: directories of plain files, written in the background.

checkpoints = Checkpoints("log/checkpoints", keep=2)
checkpoints.save(runner.state_dict(), step=120_000)
runner.load_state_dict(checkpoints.load())

A checkpoint has a ``manifest.json`` (versions, step, configuration, the state with references to
its arrays, size and sha256 of every file) and safetensors files with the arrays. Nothing in it is
a pickle: loading runs no code. It is written beside, brought to disk, and then renamed, so a
directory of its name is complete; and it needs no other one, so it can be copied, moved or deleted
alone.

Large arrays of which few rows change, such as those of replay buffers, are marked as ``Rows``.
They are written in segments, and a segment that is as in the checkpoint before is a hard link to
its file there.

* ``store``: the checkpoints of a run, saved and loaded.
* ``tree``: a state as values of JSON, and its arrays by name.
* ``arrays``: their division into files, by which those that did not change are known again.
* ``files``: the thread that writes them, and what is verified in them.
"""
