import pytest

from rlpyt.utils.logging import console
from rlpyt.utils.logging.console import Message, SimpleMessage


@pytest.mark.parametrize(
    ("kwargs", "codes"),
    [({}, "31"), ({"bold": True}, "31;1"), ({"highlight": True}, "41")],
)
def test_colorize(kwargs, codes):
    assert console.colorize("x", "red", **kwargs) == f"\x1b[{codes}mx\x1b[0m"


def test_unknown_color_is_named():
    with pytest.raises(ValueError, match="'pink': use one of gray, red"):
        console.colorize("x", "pink")


def test_mkdir_p(tmp_path):
    for _ in range(2):
        console.mkdir_p(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_simple_message():
    lines = []
    with SimpleMessage("work", lines.append):
        pass
    with pytest.raises(KeyError), SimpleMessage("more work", lines.append):
        raise KeyError
    assert [line.split(" in ")[0] for line in lines] == ["work", "done", "more work", "failed"]


def test_messages_are_indented(capsys):
    with Message("outer"), Message("inner"):
        pass
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("\t") for line in lines] == [0, 1, 1, 0]
    assert console.MESSAGE_DEPTH == 0


def test_log_functions(tmp_path, capsys):
    tee = console.tee_log(tmp_path / "log")
    console.prefix_log("a: ", tee)("one")
    tee("two")
    assert capsys.readouterr().out == "a: one\ntwo\n"
    assert (tmp_path / "log").read_text() == "a: one\ntwo\n"


@pytest.fixture
def command_line(monkeypatch):
    def give(*words):
        monkeypatch.setattr("sys.argv", ["program", *words])

    return give


def test_collect_args(command_line):
    command_line("positional", "--lr", "0.1", "--n-envs=4", "--last")
    assert console.collect_args() == {"lr": "0.1", "n_envs": "4", "last": ""}


def test_an_option_is_no_value_of_a_flag(command_line):
    """The option after a flag was taken for its value, and lost."""
    command_line("--flag", "--lr", "0.1", "--shift", "-2", "--on=", "--last")
    expected = {"flag": "", "lr": "0.1", "shift": "-2", "on": "", "last": ""}
    assert console.collect_args() == expected
    assert console.tweak(1.0, "lr") == 0.1
    assert console.tweak(False, "flag") is True


def test_tweak_of_a_value(command_line):
    command_line("--lr", "0.1", "--flag", "false")
    assert console.tweak(1.0, "lr") == 0.1
    assert console.tweak(True, "flag") is False
    assert console.tweak(5, "other") == 5
    with pytest.raises(ValueError, match="needs an identifier"):
        console.tweak(5)


def test_tweak_of_a_boolean_is_checked(command_line):
    command_line("--flag", "perhaps")
    with pytest.raises(ValueError, match="'perhaps'"):
        console.tweak(True, "flag")


def test_tweak_of_a_function(command_line):
    @console.type_hint("sizes", lambda text: [int(n) for n in text.split(",")])
    def build(a, n=1, name="x", sizes=None):
        return a, n, name, sizes

    command_line("--n", "3", "--name", "y", "--sizes", "4,5", "--a", "never: it is given")
    assert console.tweak(build)(0, name="z") == (0, 3, "z", [4, 5])
    command_line("--net_n", "7", "--n", "3")
    assert console.tweak(build, "net")(0) == (0, 7, "x", None)


@pytest.mark.parametrize(
    ("answers", "default", "expected"),
    [
        (["y"], None, True),
        (["NO"], "yes", False),
        ([""], "yes", True),
        ([""], "no", False),
        (["", "perhaps", "ye"], None, True),
    ],
)
def test_query_yes_no(answers, default, expected, monkeypatch):
    remaining = iter(answers)
    monkeypatch.setattr("builtins.input", lambda prompt: next(remaining))
    assert console.query_yes_no("Sure?", default) is expected
    assert list(remaining) == []


def test_query_default_is_checked():
    with pytest.raises(ValueError, match="'perhaps'"):
        console.query_yes_no("Sure?", "perhaps")
