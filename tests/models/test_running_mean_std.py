"""Running statistics, in one process and in two."""

import pytest
import torch

from rlpyt.models.running_mean_std import RunningMeanStdModel
from tests.forked import in_two_ranks


def batches():
    generator = torch.Generator().manual_seed(0)
    sizes_and_means = [(5, 0.0), (1, 100.0), (12, -3.0)]
    return [mean + torch.randn(n, 3, generator=generator) for n, mean in sizes_and_means]


def assert_statistics_of(model, data):
    torch.testing.assert_close(model.mean, data.mean(dim=0))
    torch.testing.assert_close(model.var, data.var(dim=0, unbiased=False))
    assert model.count.item() == len(data)


class TestOneProcess:
    def test_starts_as_the_identity(self):
        model = RunningMeanStdModel((3,))
        assert list(model.state_dict()) == ["mean", "var", "count"]
        assert model.mean.tolist() == [0.0] * 3
        assert model.var.tolist() == [1.0] * 3
        assert model.count.item() == 0
        assert {name: value.shape for name, value in model.state_dict().items()} == {
            "mean": (3,),
            "var": (3,),
            "count": (),
        }

    def test_batches_are_merged_exactly(self):
        model = RunningMeanStdModel((3,))
        for n, batch in enumerate(batches(), start=1):
            model.update(batch)
            assert_statistics_of(model, torch.cat(batches()[:n]))
        assert model.mean.dtype == model.var.dtype == torch.float

    def test_constant_entries_stay_exact(self):
        """The mean was rounded in every update, and drifted by 3e-5 in 500."""
        model = RunningMeanStdModel((1,))
        constant = torch.full((7, 1), 100.3)
        for _ in range(500):
            model.update(constant)
        assert model.mean.item() == constant[0].item()
        assert model.var.item() == 0

    def test_first_batch_replaces_the_initial_variance(self):
        model = RunningMeanStdModel(())
        model.update(torch.tensor([0.0, 2e-5]))
        assert model.var.item() == pytest.approx(1e-10, rel=1e-5)

    @pytest.mark.parametrize("lead", [(), (6,), (2, 3)])
    def test_leading_dims(self, lead):
        model = RunningMeanStdModel((2, 3))
        x = torch.randn(*lead, 2, 3)
        model.update(x)
        torch.testing.assert_close(model.mean, x.reshape(-1, 2, 3).mean(dim=0))
        assert model.count.item() == x.numel() // 6

    def test_counts_beyond_the_integers_of_float32(self):
        """Stood still at 2^24 data."""
        model = RunningMeanStdModel(())
        model.count.fill_(2**24)
        model.update(torch.zeros(1))
        assert model.count.item() == 2**24 + 1

    def test_loads_a_count_that_was_a_float(self):
        model = RunningMeanStdModel((3,))
        state = {"mean": torch.ones(3), "var": torch.ones(3), "count": torch.tensor(12.0)}
        model.load_state_dict(state)
        assert model.count.item() == 12


def update_with_part_of_the_data(rank):
    model = RunningMeanStdModel((3,))
    model.update(batches()[rank])
    model.update(batches()[2][rank::3])
    return {name: x.numpy() for name, x in model.state_dict().items()}


def test_processes_are_merged_exactly(tmp_path):
    """The variance ignored the difference between the means of the processes."""
    states = in_two_ranks(update_with_part_of_the_data, tmp_path / "store")
    first, second, third = batches()
    data = torch.cat([first, second, third[0::3], third[1::3]])
    for state in states:
        model = RunningMeanStdModel((3,))
        model.load_state_dict({name: torch.as_tensor(x) for name, x in state.items()})
        assert_statistics_of(model, data)
