"""Parameters as JSON."""

import argparse
import enum
import json

import pytest

from rlpyt.utils.logging import logger


class Colour(enum.Enum):
    RED = 1


class Net:
    pass


def test_log_parameters(tmp_path):
    path = tmp_path / "deep" / "params.json"
    args = argparse.Namespace(sizes=[4], lr=0.5, depth=None)
    for write in (logger.log_parameters_lite, lambda *args: logger.log_parameters(*args, {})):
        write(path, args)
        assert json.loads(path.read_text()) == {"sizes": [4], "lr": 0.5}


def test_log_variant(tmp_path):
    variant = {
        "cls": Net,
        "colour": Colour.RED,
        "f": test_log_parameters,
        "b": len,
        ("t", 1): ({1}, None),
    }
    logger.log_variant(tmp_path / "variant.json", variant)
    assert json.loads((tmp_path / "variant.json").read_text()) == {
        "cls": {"$class": f"{__name__}.Net"},
        "colour": {"$enum": f"{__name__}.Colour.RED"},
        "f": {"$function": f"{__name__}.test_log_parameters"},
        "b": {"$function": "builtins.len"},
        "('t', 1)": [[1], None],
    }


def test_what_has_no_json_is_an_error(tmp_path):
    with pytest.raises(TypeError, match="object is not JSON serializable"):
        logger.log_variant(tmp_path / "variant.json", {"a": object()})
    assert list(tmp_path.iterdir()) == []


def test_stub_to_json_leaves_other_values():
    assert logger.stub_to_json({1: ((1, 2.5), {"a": Net})}) == {"1": [[1, 2.5], {"a": Net}]}
