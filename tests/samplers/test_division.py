"""Division of environments among workers."""

import pytest

from rlpyt.samplers.parallel._division import Offset, share_of_worker, split_envs, worker_specs


@pytest.mark.parametrize(
    ("B", "n_workers", "n_groups", "sizes"),
    [
        (6, 1, 1, [6]),
        (6, 2, 1, [3, 3]),
        (7, 3, 1, [3, 2, 2]),
        (2, 3, 1, [1, 1, 0]),
        (6, 4, 2, [2, 1, 2, 1]),  # A pair, w and w + 2, has the same number.
        (8, 2, 2, [4, 4]),
        (2, 4, 2, [1, 0, 1, 0]),
    ],
)
def test_shares_by_hand(B, n_workers, n_groups, sizes):
    specs = split_envs(B, n_workers, n_groups)
    assert [spec.n_envs for spec in specs] == sizes
    assert [spec.rank for spec in specs] == list(range(n_workers))
    assert [i for spec in specs for i in range(B)[spec.columns]] == list(range(B))
    half = n_workers // n_groups
    assert [spec.group for spec in specs] == [rank // half for rank in range(n_workers)]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((5, 2, 2), "5 environments do not divide into 2 halves"),
        ((6, 3, 2), "3 workers do not divide into 2 halves"),
        ((6, 0), "name at least one CPU in workers_cpus"),
    ],
)
def test_what_does_not_divide_is_refused(args, message):
    with pytest.raises(ValueError, match=message):
        split_envs(*args)


def test_workers_of_every_action_server_have_ranks_and_seeds_of_their_own():
    firsts = Offset(), Offset(worker=2, env=5)
    shares = [
        share_of_worker(spec, first, 10, {"workers_cpus": 2}, seed=1)
        for first, sizes in zip(firsts, [(3, 2), (2, 2)])
        for spec in worker_specs(sizes)
    ]
    assert [share["rank"] for share in shares] == [0, 1, 2, 3]
    assert [i for share in shares for i in share["env_ranks"]] == list(range(10, 19))
    assert len({share["seed"] for share in shares}) == 4
