"""Cross products of variants, and how a variant changes a configuration."""

from __future__ import annotations

import pytest

from rlpyt.experiments.sweeps.variant import (
    VARIANT,
    VariantLevel,
    load_variant,
    make_variants,
    save_variant,
    update_config,
)

GAMES = VariantLevel([("env", "game")], [("pong",), ("breakout",)], ["pong", "breakout"])
RATES = VariantLevel(
    keys=[("algo", "lr"), ("algo", "batch", "size")],
    values=[(0.1, 2), (0.2, 4)],
    dir_names=["slow", "fast"],
)


def test_first_level_changes_slowest():
    variants, log_dirs = make_variants(GAMES, RATES)
    assert log_dirs == ["pong/slow", "pong/fast", "breakout/slow", "breakout/fast"]
    assert variants[1] == dict(env=dict(game="pong"), algo=dict(lr=0.2, batch=dict(size=4)))
    assert variants[2] == dict(env=dict(game="breakout"), algo=dict(lr=0.1, batch=dict(size=2)))


def test_variants_do_not_share_dicts():
    variants, _ = make_variants(GAMES, RATES)
    variants[0]["algo"]["lr"] = -1
    assert [variant["algo"]["lr"] for variant in variants] == [-1, 0.2, 0.1, 0.2]


def test_a_level_may_set_a_key_of_a_dict_from_another():
    settings = VariantLevel([("algo",)], [({"lr": 0.1, "size": 0},), ({"lr": 0.2},)], ["a", "b"])
    variants, _ = make_variants(
        settings, VariantLevel([("algo", "size")], [(32,), (64,)], ["c", "d"])
    )
    algos = [variant["algo"] for variant in variants]
    assert [(algo["lr"], algo["size"]) for algo in algos] == [
        (0.1, 32),
        (0.1, 64),
        (0.2, 32),
        (0.2, 64),
    ]
    assert settings.values[0] == ({"lr": 0.1, "size": 0},)


@pytest.mark.parametrize(
    ("level", "message"),
    [
        (VariantLevel([("a",)], [(1,), (2,)], ["one"]), "dir_names has 1"),
        (VariantLevel([("a",), ("b",)], [(1,)], ["one"]), "one value for each key"),
        (VariantLevel([("a",)], [1], ["one"]), "must be tuples"),
        (VariantLevel(["a"], [(1,)], ["one"]), "keys must be tuples"),
        (VariantLevel([("a",)], [(1,), (2,)], ["same", "same"]), "log into 'same'"),
    ],
)
def test_mistakes_in_a_level_are_named(level, message):
    with pytest.raises(ValueError, match=message):
        make_variants(level)


def test_saved_variant_comes_back_from_a_new_directory(tmp_path):
    log_dir = tmp_path / "new" / "run"
    save_variant(dict(algo=dict(lr=0.5, sizes=(1, 2))), log_dir)
    assert (log_dir / VARIANT).exists()
    assert load_variant(log_dir) == dict(algo=dict(lr=0.5, sizes=[1, 2]))


def test_a_variant_that_cannot_be_saved_leaves_no_file(tmp_path):
    with pytest.raises(TypeError):
        save_variant({"lr": 1, "sizes": object()}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_update_changes_a_copy():
    default = dict(algo=dict(lr=0.1, clip=1.0), env=dict(id="Hopper-v5"))
    config = update_config(default, dict(algo=dict(lr=0.2)))
    assert config == dict(algo=dict(lr=0.2, clip=1.0), env=dict(id="Hopper-v5"))
    assert default["algo"]["lr"] == 0.1


def test_update_refuses_unknown_keys_and_mixed_levels():
    with pytest.raises(KeyError, match="learning_rate"):
        update_config(dict(algo=dict(lr=0.1)), dict(algo=dict(learning_rate=0.2)))
    with pytest.raises(TypeError, match="both must be dicts"):
        update_config(dict(algo=dict(lr=0.1)), dict(algo=0.2))
    with pytest.raises(TypeError, match="both must be dicts"):
        update_config(dict(lr=0.1), dict(lr=dict(start=0.2)))
