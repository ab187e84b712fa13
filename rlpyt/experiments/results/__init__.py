"""Results of finished runs: read, summarized, compared and drawn.

* ``runs``: the runs below a directory, with their labels and tasks, and their learning curves.
* ``statistics``: interquartile mean, performance profile and probability of improvement, with
  stratified bootstrap intervals, as functions of arrays.
* ``sequential``: a test of two settings after every seed, which stops once they differ.
* ``comparison``: all numbers of a comparison of runs, as tables and csv files.
* ``suites``: suites of tasks with published scores, such as Atari 100k, and their comparison.
* ``pictures``: pictures of a comparison; ``plot_results`` makes all of them.
"""
