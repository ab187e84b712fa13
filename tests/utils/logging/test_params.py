"""Parameters as JSON, and the command-line arguments they come from."""

import argparse
import enum
import json

import pytest

from rlpyt.utils.logging import autoargs, logger


class Colour(enum.Enum):
    RED = 1


class Net:
    @autoargs.arg("sizes", type=int, nargs="*", mapper=tuple)
    @autoargs.arg("bias", type=bool, help="with bias")
    @autoargs.arg("lr", type=float, prefix=False)
    @autoargs.prefix("net_")
    def __init__(self, n_in, sizes=(8,), bias=True, lr=0.1):
        self.given = (n_in, sizes, bias, lr)


class DeepNet(Net):
    @autoargs.inherit(Net.__init__)
    @autoargs.arg("depth", type=int, choices=[1, 2])
    def __init__(self, n_in, depth=1, **kwargs):
        super().__init__(n_in, **kwargs)
        self.depth = depth


class PlainChild(Net):
    pass


def parse(cls, *words):
    parser = argparse.ArgumentParser(exit_on_error=False)
    autoargs.add_args(cls)(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize("cls", [Net, DeepNet, PlainChild])
def test_new_from_args(cls):
    args = parse(cls, "--net_sizes", "4", "5", "--lr", "0.5")
    net = autoargs.new_from_args(cls)(args, 3)
    assert net.given == (3, (4, 5), True, 0.5)
    assert autoargs.new_from_args(cls)(args, 3, lr=7).given[-1] == 7


def test_inherited_arguments_have_the_prefix():
    args = parse(DeepNet, "--net_depth", "2")
    assert autoargs.get_all_parameters(DeepNet, args) == {"depth": 2}


@pytest.mark.parametrize(("text", "value"), [("t", True), ("False", False), ("1", True)])
def test_boolean_argument(text, value):
    assert parse(Net, "--net_bias", text).net_bias is value


@pytest.mark.parametrize("words", [("--net_bias", "perhaps"), ("--net_depth", "3")])
def test_wrong_arguments_are_refused(words):
    with pytest.raises(argparse.ArgumentError, match="perhaps|invalid choice"):
        parse(DeepNet, *words)


def test_log_parameters(tmp_path):
    path = tmp_path / "deep" / "params.json"
    args = parse(Net, "--net_sizes", "4", "--lr", "0.5")
    logger.log_parameters(path, args, {"net": Net, "none": None})
    assert json.loads(path.read_text()) == {
        "net_sizes": [4],
        "lr": 0.5,
        "net": {"_name": "Net", "sizes": [4], "lr": 0.5},
    }
    logger.log_parameters_lite(path, args)
    assert json.loads(path.read_text()) == {"net_sizes": [4], "lr": 0.5}


def test_log_variant(tmp_path):
    variant = {"cls": Net, "colour": Colour.RED, "f": parse, "b": len, ("t", 1): ({1}, None)}
    logger.log_variant(tmp_path / "variant.json", variant)
    assert json.loads((tmp_path / "variant.json").read_text()) == {
        "cls": {"$class": f"{__name__}.Net"},
        "colour": {"$enum": f"{__name__}.Colour.RED"},
        "f": {"$function": f"{__name__}.parse"},
        "b": {"$function": "builtins.len"},
        "('t', 1)": [[1], None],
    }


def test_what_has_no_json_is_an_error(tmp_path):
    with pytest.raises(TypeError, match="object is not JSON serializable"):
        logger.log_variant(tmp_path / "variant.json", {"a": object()})
    assert list(tmp_path.iterdir()) == []


def test_stub_to_json_leaves_other_values():
    assert logger.stub_to_json({1: ((1, 2.5), {"a": Net})}) == {"1": [[1, 2.5], {"a": Net}]}
