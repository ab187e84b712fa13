"""Paths of rlpyt 0.1.2, kept for programs written against it: see ``rlpyt.experiments.sweeps``."""
