"""Runs from the command line, by entries of tables of settings.

* ``train``: builds and trains an entry; the program ``python -m rlpyt.experiments.train``.
* ``launched``: the script that a sweep over the tables starts.
* ``configs``: the tables.
"""
