from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rlpyt.algos.pg._moments import RunningStd, moments, normalize
from rlpyt.utils.torch_compat import load
from tests.reference.policy_gradient import normalized


def test_of_all_entries() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    assert moments(x) == (4.0, 3.0, 14.0)
    assert normalize(x).flatten().tolist() == pytest.approx(normalized([1, 2, 3, 6]))


def test_of_valid_entries_applied_to_all() -> None:
    x, valid = torch.tensor([1.0, 2.0, 100.0, 6.0]), torch.tensor([1.0, 1.0, 0.0, 1.0])
    assert normalize(x, valid).tolist() == pytest.approx(normalized([1, 2, 100, 6], [1, 2, 6]))


def test_equal_entries_and_a_single_one_stay_finite() -> None:
    # The deviation of a single entry was NaN.
    assert normalize(torch.full((3,), 5.0)).tolist() == [0, 0, 0]
    assert normalize(torch.tensor([5.0])).tolist() == [0]


def test_large_offsets_lose_no_digits() -> None:
    x = torch.tensor([0.0, 1.0, 2.0]) + 2**20
    assert normalize(x).tolist() == pytest.approx([-1, 0, 1])


def test_running_deviation_is_that_of_all_data() -> None:
    running, batches = RunningStd(), [torch.randn(n) * 3 + n for n in (5, 1, 30)]
    assert running.std == 1
    for batch in batches:
        running.update(batch)
    assert running.std == pytest.approx(torch.cat(batches).std(unbiased=False).item(), rel=1e-5)
    other = RunningStd()
    other.load_state_dict(running.state_dict())
    assert other.std == running.std


def test_running_deviation_of_nothing_and_of_constants() -> None:
    running = RunningStd()
    running.update(torch.ones(3), torch.zeros(3))
    assert running.std == 1
    running.update(torch.ones(3))
    assert running.std == 1


def normalize_part(rank: int, folder: str) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    x = [torch.tensor([1.0, 2.0, 50.0]), torch.tensor([3.0, 6.0])][rank]
    valid = [torch.tensor([1.0, 1.0, 0.0]), None][rank]
    torch.save(normalize(x, valid), Path(folder) / f"{rank}.pt")
    torch.distributed.destroy_process_group()


def test_statistics_are_those_of_all_processes(tmp_path: Path) -> None:
    """Each process normalised by its own batch, so that equal advantages differed in weight."""
    torch.multiprocessing.spawn(normalize_part, (str(tmp_path),), nprocs=2)
    found = [load(tmp_path / f"{rank}.pt").tolist() for rank in range(2)]
    expected = normalized([1, 2, 50, 3, 6], [1, 2, 3, 6])
    assert [*found[0], *found[1]] == pytest.approx(expected)
