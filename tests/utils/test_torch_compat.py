"""The choice of the fused optimizers, and loading without running code."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from rlpyt.utils.torch_compat import (
    adam_kwargs,
    has_hooks,
    lerp_,
    load,
    torch_version,
    total_norm,
)

cpu_fused = pytest.mark.skipif(torch_version() < (2, 4), reason="fused on CPU came with torch 2.4")


class OwnStep(torch.optim.Adam):
    """A subclass, which may do in its step what a fused one would not."""


def parameters(dtype: torch.dtype = torch.float32, device: str = "cpu") -> list[torch.Tensor]:
    return [torch.nn.Parameter(torch.ones(3, dtype=dtype, device=device)) for _ in range(2)]


@cpu_fused
def test_fused_takes_the_same_steps() -> None:
    finals = []
    for kwargs in ({}, adam_kwargs(torch.optim.Adam, parameters(), {"eps": 1e-5})):
        x = parameters()
        optimizer = torch.optim.Adam(x, lr=0.1, **{"eps": 1e-5, **kwargs})
        for i in range(10):
            for p in x:
                p.grad = torch.sin(i * p.detach() + torch.arange(3))
            optimizer.step()
        finals.append(x)
    for a, b in zip(*finals, strict=True):
        torch.testing.assert_close(a, b)


@cpu_fused
@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_fused_is_added_to_the_given_arguments(name: str) -> None:
    OptimCls = getattr(torch.optim, name)
    assert adam_kwargs(OptimCls, parameters()) == {"fused": True}
    assert adam_kwargs(OptimCls, parameters(), {"eps": 1}) == {"eps": 1, "fused": True}


@pytest.mark.parametrize("chosen", [{"fused": False}, {"foreach": True}, {"differentiable": True}])
def test_the_choice_of_the_user_prevails(chosen: dict[str, Any]) -> None:
    assert adam_kwargs(torch.optim.Adam, parameters(), chosen) == chosen


def test_not_where_it_is_not_supported() -> None:
    for OptimCls in (torch.optim.RMSprop, torch.optim.SGD, torch.optim.Adagrad, OwnStep):
        assert adam_kwargs(OptimCls, parameters()) == {}
    assert adam_kwargs(lambda params, lr: torch.optim.Adam(params, lr), parameters()) == {}
    assert adam_kwargs(torch.optim.Adam, parameters(torch.complex64)) == {}
    assert adam_kwargs(torch.optim.Adam, [*parameters(), *parameters(device="meta")]) == {}


def test_sparse_gradients_of_sgd() -> None:
    """The fused SGD, which was chosen, refuses them."""
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = torch.optim.SGD(
        table.parameters(), lr=1.0, **adam_kwargs(torch.optim.SGD, list(table.parameters()))
    )
    before = table.weight.detach().clone()
    table(torch.tensor([1])).sum().backward()
    optimizer.step()
    assert (before - table.weight).tolist() == [[0, 0], [1, 1], [0, 0], [0, 0]]


@pytest.mark.gpu
def test_fused_on_a_gpu() -> None:
    assert adam_kwargs(torch.optim.Adam, parameters(device="cuda")) == {"fused": True}


def test_load(tmp_path: Path) -> None:
    snapshot = {"itr": 3, "agent_state_dict": {"w": torch.arange(3)}, "names": ("a", None, 1.5)}
    torch.save(snapshot, tmp_path / "params.pkl")
    loaded = load(tmp_path / "params.pkl", map_location="cpu")
    assert loaded.pop("agent_state_dict")["w"].tolist() == [0, 1, 2]
    assert loaded == {"itr": 3, "names": ("a", None, 1.5)}


@pytest.mark.skipif(torch_version() < (2, 1), reason="weights_only reads floats since torch 2.1")
def test_load_runs_no_code() -> None:
    file = io.BytesIO()
    torch.save({"code": Path}, file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError):
        load(file)


@pytest.mark.parametrize("has_foreach", [True, False])
def test_total_norm(has_foreach: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_foreach:
        monkeypatch.delattr(torch, "_foreach_norm", raising=False)
    assert total_norm([]).item() == 0
    assert total_norm([torch.tensor([3.0, 0.0]), torch.tensor(4.0)]).item() == 5
    assert total_norm([torch.zeros(2), torch.tensor(float("nan"))]).isnan()


@pytest.mark.parametrize("has_foreach", [True, False])
def test_lerp(has_foreach: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_foreach:
        monkeypatch.delattr(torch, "_foreach_lerp_", raising=False)
    tensors, ends = [torch.zeros(2), torch.tensor(1.0)], [torch.tensor([4.0, 8.0]), torch.zeros(())]
    lerp_(tensors, ends, 0.25)
    assert [tensor.tolist() for tensor in tensors] == [[1, 2], 0.75]
    assert ends[0].tolist() == [4, 8]
    lerp_([], [], 0.25)


@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward", "full_backward_pre"])
def test_has_hooks(kind: str) -> None:
    module = torch.nn.Linear(1, 1)
    assert not has_hooks(module)
    if not hasattr(module, f"register_{kind}_hook"):
        pytest.skip("this torch has no such hook")
    handle = getattr(module, f"register_{kind}_hook")(lambda *args: None)
    assert has_hooks(module)
    handle.remove()
    assert not has_hooks(module)
