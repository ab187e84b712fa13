"""Checkpoints hold every state exactly, in files that can be killed, damaged and moved."""

import errno
import hashlib
import itertools
import json
import math
import multiprocessing as mp
import os
import pickle
import resource
import shutil
import signal
import threading
import time
import tracemalloc
from collections import OrderedDict, deque, namedtuple

import numpy as np
import pytest
import torch

from rlpyt.checkpoints import arrays as checkpoint_arrays, files as checkpoint_files, store
from rlpyt.checkpoints.arrays import Rows
from rlpyt.checkpoints.files import CheckpointError
from rlpyt.checkpoints.store import Checkpoints
from rlpyt.processes import machine
from rlpyt.utils.collections import NamedArrayTupleSchema, namedarraytuple
from rlpyt.utils.logging import logger
from tests.waiting import wait_until

fork = mp.get_context("fork")

Record = namedarraytuple("Record", ["image", "joints"])
Plain = namedtuple("Plain", ["x", "y"])

VALUES = {
    "none": None,
    "flags": [True, False],
    "ints": [0, -1, 2**63, -(2**63), 2**200, -(3**100)],
    "floats": [0.1, -0.0, 1e-320, math.inf, -math.inf, math.nan],
    "complex": [1 - 2j, complex(math.nan, math.inf)],
    "text": ["", '\u00e4 \ud800 \0 "quoted"', "dict", "array"],
    "bytes": [b"", bytes(range(256))],
    "tuples": ((), (1, (2, [3, (4,)])), [()]),
    "dicts": {1: {2.5: "x", None: "y", True: "z"}, ("a", (1, b"k")): {}, "dict": {"array": "x"}},
    "sets": [{1, 2}, frozenset({"a"}), set(), deque([1, None], 3)],
    "ordered": OrderedDict(b=1, a=OrderedDict({2: 3})),
    "records": [Record(np.ones(3), None), Plain(1, (2, 3))],
    "scalars": [
        np.float32(0.1),
        np.int8(-3),
        np.bool_(True),
        np.float64("nan"),
        np.uint64(2**64 - 1),
    ],
    "arrays": [
        *(
            np.arange(6).astype(kind).reshape(2, 3)
            for kind in ["?", "b", "B", "h", "H", "i", "I", "l", "L", "e", "f", "d", "F", "D"]
        ),
        *(np.array(7, kind) for kind in ["?", "i8", "f4", ">f8", "c16"]),
        *(np.zeros(shape, kind) for shape in ((0,), (2, 0, 3)) for kind in ("f4", ">i2", "c8")),
        np.arange(24).reshape(2, 3, 4)[:, ::-1, ::2],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([["a", "bcd"]]),
        np.array([b"a\0b", b""]),
        np.array(["2020-01-01", "NaT"], "M8[s]"),
        np.arange(3, dtype=">u4"),
        np.array([np.nan, -0.0, np.inf]),
    ],
    "tensors": [
        *(
            torch.arange(4).to(dtype)
            for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16)
        ),
        *(torch.arange(4).to(dtype) for dtype in (torch.int32, torch.int64, torch.uint16)),
        *(torch.arange(4.0).to(dtype) for dtype in (torch.float16, torch.bfloat16, torch.float32)),
        *(torch.tensor(2.5, dtype=dtype) for dtype in (torch.float64, torch.bfloat16)),
        *(torch.tensor([1 - 2j], dtype=dtype) for dtype in (torch.complex64, torch.complex128)),
        torch.arange(4.0).to(torch.float8_e5m2),
        torch.zeros(0, 3),
        *(torch.tensor([1 - 2j]).conj(), torch.tensor([1 - 2j]).conj().imag),
        torch.arange(12).reshape(3, 4).t()[::2],
    ],
}


def assert_equal(one, other):
    assert type(one) is type(other) or (type(one).__name__, one._fields) == (
        type(other).__name__,
        other._fields,
    )
    if isinstance(one, dict):
        assert list(map(repr, one)) == list(map(repr, other))
        for x, y in zip(one.values(), other.values(), strict=True):
            assert_equal(x, y)
    elif isinstance(one, (list, tuple)):
        for x, y in zip(iter(one), iter(other), strict=True):
            assert_equal(x, y)
    elif isinstance(one, (np.ndarray, np.generic)):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()
    elif isinstance(one, torch.Tensor):
        assert (one.dtype, one.shape, one.tolist()) == (other.dtype, other.shape, other.tolist())
    else:
        assert repr(one) == repr(other)


@pytest.fixture
def lines(monkeypatch):
    """What is logged."""
    logged = []
    monkeypatch.setattr(logger, "log", logged.append)
    return logged


def saved(directory, state, step=1, **kwargs):
    checkpoints = Checkpoints(directory, **kwargs)
    checkpoints.save(state, step)
    assert checkpoints.wait()
    return checkpoints


# --- Values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", VALUES)
def test_values_survive_with_their_types(tmp_path, kind):
    assert_equal(saved(tmp_path, {kind: VALUES[kind]}).load(), {kind: VALUES[kind]})


@pytest.mark.parametrize("make", [namedarraytuple, NamedArrayTupleSchema])
def test_records_stay_records(tmp_path, make):
    record = make("Seen", ["a", "b"])(a=np.arange(3), b=np.zeros(3))
    loaded = saved(tmp_path, {"seen": record}).load()["seen"]
    assert (type(loaded).__name__, tuple(loaded[1])) == ("Seen", (1, 0))  # Row 1 of every field.
    assert tuple(pickle.loads(pickle.dumps(loaded))[1]) == (1, 0)  # For workers.


def test_generators_continue(tmp_path):
    generators = [np.random.default_rng(3), np.random.Generator(np.random.MT19937(1))]
    generators.append(np.random.RandomState(2))
    generators[2].normal()  # Keeps a second number.
    state = saved(tmp_path, {"all": generators}).load()["all"]
    for one, other in zip(generators, state, strict=True):
        assert np.array_equal(one.normal(size=3), other.normal(size=3))


def test_paths_that_look_the_same_are_kept_apart(tmp_path):
    state = {"a.b": np.zeros(2), "a": {"b": np.ones(2), ("b",): np.full(2, 2), "keys": {}}}
    assert_equal(saved(tmp_path, state).load(), state)


def test_complex_tensors_may_lie_anywhere_in_a_file(tmp_path):
    # Loading ended the process where one was at no multiple of its 16 bytes.
    state = [torch.zeros(1, dtype=torch.float64), torch.tensor([1 - 2j], dtype=torch.complex128)]
    assert_equal(saved(tmp_path, state).load(), state)


def test_loaded_arrays_can_be_written_to_and_outlive_the_checkpoint(tmp_path):
    checkpoints = saved(tmp_path, {"x": np.zeros(3), "y": torch.zeros(3)})
    loaded = checkpoints.load()
    for file in checkpoints.latest().iterdir():
        file.write_bytes(b"")
    loaded["x"][0] = loaded["y"][0] = 1
    assert loaded["x"].tolist() == loaded["y"].tolist() == [1, 0, 0]


class Own:
    pass


@pytest.mark.parametrize(
    "value",
    [
        Own(),
        {Own()},
        np.array([Own()]),
        np.ma.array([1], mask=[True]),
        np.zeros(2, [("a", "i4")]),
        torch.zeros(2).to_sparse(),
        print,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_cannot_be_saved_is_named_before_anything_is_written(tmp_path, value):
    checkpoints = Checkpoints(tmp_path / "new")
    with pytest.raises(TypeError, match=r"^algo\.state\.0\.exp_avg(\.0)? cannot be saved"):
        checkpoints.save({"algo": {"state": {0: {"exp_avg": value}}}}, 1)
    assert not (tmp_path / "new").exists()


# --- Directories --------------------------------------------------------------------------------


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_the_newest_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path / "a" / "b", keep=2)
    assert checkpoints.latest() is None
    for step in (10, 20, 30, 40):
        checkpoints.save({"step": step}, step)
        assert checkpoints.wait()
        assert checkpoints.latest().name == f"checkpoint_{step:09d}"
        assert checkpoints.load() == {"step": step}
    assert names(checkpoints.directory) == ["checkpoint_000000030", "checkpoint_000000040"]
    assert checkpoints.load(tmp_path / "a" / "b" / "checkpoint_000000030") == {"step": 30}


def test_the_newest_is_the_one_written_last(tmp_path):
    """A run that went back, or a new one in an old directory, comes to lower or equal steps."""
    checkpoints = Checkpoints(tmp_path, keep=2)
    for i, step in enumerate((50, 20, 20, 20)):
        checkpoints.save({"i": i}, step)
        checkpoints.wait()
        assert Checkpoints(tmp_path).load() == {"i": i}
    assert len(names(tmp_path)) == 2


def test_only_complete_checkpoints_count(tmp_path):
    checkpoints = saved(tmp_path, {"x": 1})
    (tmp_path / "checkpoint_000000009").mkdir()
    (tmp_path / "checkpoint_best").mkdir()
    assert checkpoints.load() == {"x": 1}


@pytest.mark.parametrize("text", ["", "{", "{}", '{"format": "rlpyt checkpoint"}'])
def test_a_damaged_manifest_is_not_passed_over(tmp_path, text):
    """A run would begin anew, or from an older checkpoint, and overwrite the rest of its log."""
    checkpoints = saved(tmp_path, {"x": 1})
    (tmp_path / "checkpoint_000000009").mkdir()
    (tmp_path / "checkpoint_000000009" / "manifest.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"checkpoint_000000009 (is damaged|was not written)"):
        checkpoints.load()


def test_the_copy_is_of_the_moment(tmp_path):
    state = {"x": np.zeros(1000), "y": torch.zeros(1000), "z": [1]}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state, 1)
    state["x"][:], state["y"][:], state["z"][0] = 1, 1, 2
    loaded = checkpoints.load(checkpoints.wait() and checkpoints.latest())
    assert not loaded["x"].any()
    assert not loaded["y"].any()
    assert loaded["z"] == [1]


# --- Refusals -----------------------------------------------------------------------------------


def rewrite(path, **entries):
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, **entries}))


def shorten(path):
    path.write_bytes(path.read_bytes()[:-3])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("harm", "match"),
    [
        (lambda path: shorten(path / "arrays-000.safetensors"), r"arrays-000.* bytes instead of"),
        (lambda path: flip_a_bit(path / "arrays-000.safetensors"), "arrays-000.* has the sha256"),
        (lambda path: (path / "arrays-000.safetensors").unlink(), "arrays-000.* cannot be read"),
        (lambda path: rewrite(path, step=8), "manifest.json does not match its sha256"),
        (lambda path: rewrite(path, state={"dict": {}}), "does not match its sha256"),
        (lambda path: shorten(path / "manifest.json"), "manifest.json is not valid JSON"),
        (lambda path: (path / "manifest.json").unlink(), "not a complete checkpoint"),
        (lambda path: rewrite(path, format="other"), "not written by this library"),
        (lambda path: rewrite(path, schema=99, library_version="7"), "of rlpyt 7; .* update rlpyt"),
    ],
)
def test_what_was_not_written_so_is_refused(tmp_path, harm, match):
    checkpoints = saved(tmp_path, {"x": np.ones(3)})
    path = checkpoints.latest()
    harm(path)
    with pytest.raises(CheckpointError, match=match):
        checkpoints.load(path)


def test_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        Checkpoints(tmp_path).load()
    with pytest.raises(CheckpointError, match="not a complete checkpoint"):
        Checkpoints(tmp_path).load(tmp_path)


def test_another_configuration_is_refused_and_the_differences_are_said(tmp_path):
    settings = {"algo": {"lr": 1e-3, "betas": (0.9, 0.999)}, "B": 8, "old": 1}
    saved(tmp_path, {"x": 1}, configuration=settings)
    assert Checkpoints(tmp_path, configuration=dict(settings)).load() == {"x": 1}
    assert Checkpoints(tmp_path).load() == {"x": 1}
    other = {"algo": {"lr": 2e-3, "betas": (0.9, 0.999)}, "B": 8, "new": None}
    with pytest.raises(CheckpointError) as caught:
        Checkpoints(tmp_path, configuration=other).load()
    for text in ("algo.lr is 0.001 in the checkpoint and 0.002 here", "old", "new"):
        assert text in str(caught.value)
    assert "betas" not in str(caught.value)
    assert "B is" not in str(caught.value)


class Malice:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("is_declared", [False, True])
def test_no_pickle_is_opened(tmp_path, is_declared):
    """Neither one in the place of the tensors, nor one that the manifest vouches for."""
    checkpoints = saved(tmp_path, {"x": np.ones(3)})
    file = checkpoints.latest() / "arrays-000.safetensors"
    torch.save(Malice(tmp_path / "ran"), file)
    if is_declared:
        manifest = json.loads((file.parent / "manifest.json").read_text())
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        manifest["files"][file.name] = {"size": file.stat().st_size, "sha256": digest}
        del manifest["sha256"]
        (file.parent / "manifest.json").write_bytes(checkpoint_files.manifest_text(manifest))
    with pytest.raises(CheckpointError, match="is damaged"):
        checkpoints.load()
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(Malice(tmp_path / "ran"))).close()
    assert (tmp_path / "ran").exists()  # It would have.


# --- Rows, of which few change ------------------------------------------------------------------

N_ROWS, SEGMENT = 4000, 8  # Rows of 16 bytes.


@pytest.fixture
def small_segments(monkeypatch):
    monkeypatch.setattr(checkpoint_arrays, "SMALLEST_SEGMENT", 16 * SEGMENT)


def made_rows(rng=None):
    return (rng or np.random.default_rng(0)).random((N_ROWS, 2))


def new_files(path):
    """Rows files that are not shared with another checkpoint."""
    return [
        file for file in path.iterdir() if file.name[:4] == "rows" and file.stat().st_nlink == 1
    ]


@pytest.mark.usefixtures("small_segments")
def test_only_segments_that_changed_are_written(tmp_path):
    array, checkpoints = made_rows(), Checkpoints(tmp_path, keep=3)
    checkpoints.save({"rows": Rows.of(array, 2000)}, 1)
    checkpoints.wait()
    n_segments = len(new_files(checkpoints.latest()))
    assert n_segments == 2000 // (-(-N_ROWS // 256))
    array[1999] += 1  # Anyone may change any row, and need not tell.
    array[3] = np.nextafter(array[3], 2)
    checkpoints.save({"rows": Rows.of(array, 2010)}, 2)
    assert checkpoints.wait()
    path = checkpoints.latest()
    assert len(new_files(path)) == 3  # That of row 3, of row 1999, and with those that came.
    # In another process, or after a resume, as well.
    array[100] = 0
    again = Checkpoints(tmp_path, keep=3)
    again.save({"rows": Rows.of(array, 2010)}, 3)
    assert again.wait()
    assert len(new_files(again.latest())) == 1
    np.testing.assert_array_equal(again.load()["rows"], array[:2010])
    array[100] = made_rows()[100]
    np.testing.assert_array_equal(again.load(path)["rows"], array[:2010])


@pytest.mark.usefixtures("small_segments")
def test_every_checkpoint_is_complete_in_itself(tmp_path):
    array, checkpoints = made_rows(), Checkpoints(tmp_path / "run", keep=1)
    for step in range(3):
        array[step] = step
        checkpoints.save({"rows": Rows.of(array, 400)}, step)
    assert checkpoints.wait()
    assert names(tmp_path / "run") == ["checkpoint_000000002"]
    shutil.copytree(checkpoints.latest(), tmp_path / "moved")
    shutil.rmtree(tmp_path / "run")
    np.testing.assert_array_equal(
        Checkpoints(tmp_path).load(tmp_path / "moved")["rows"], array[:400]
    )


@pytest.mark.usefixtures("small_segments")
def test_where_links_are_impossible_files_are_copied(tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    array, checkpoints = made_rows(), Checkpoints(tmp_path, keep=1)
    for step in range(2):
        checkpoints.save({"rows": Rows.of(array, 400)}, step)
    assert checkpoints.wait()
    np.testing.assert_array_equal(checkpoints.load()["rows"], array[:400])


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize(
    ("dtype", "n_rows"),
    [
        *((dtype, 400) for dtype in ("u1", "?", "f4", "M8[s]", ">i8", "c16", "U2")),
        *(("f4", n_rows) for n_rows in (0, 1, 17)),
    ],
)
def test_rows_of_any_type_are_read_in_place(tmp_path, dtype, n_rows):
    array = np.arange(400 * 3).reshape(400, 3).astype("i8").astype(dtype)
    other = np.zeros_like(array)
    rows = saved(tmp_path, {"rows": Rows.of(array, n_rows)}).load()["rows"]
    assert (len(rows), rows.shape, rows.dtype) == (n_rows, (n_rows, 3), array.dtype)
    rows.read_into(other)
    assert other[:n_rows].tobytes() == array[:n_rows].tobytes()
    assert other[n_rows:].tobytes() == np.zeros_like(array[n_rows:]).tobytes()


def test_large_arrays_are_divided(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_arrays, "LARGEST_FILE", 1000)
    state = {"x": made_rows()[:100], "t": torch.arange(999.0).reshape(333, 3).bfloat16()}
    state["small"] = [np.arange(i) for i in range(40)]
    checkpoints = saved(tmp_path, state)
    assert_equal(checkpoints.load(), state)
    assert all(f.stat().st_size < 4000 for f in checkpoints.latest().glob("*.safetensors"))


@pytest.mark.usefixtures("small_segments")
def test_copies_take_no_more_memory_than_they_may(tmp_path, monkeypatch):
    """The writer is slow; saving waits for it instead of copying on."""
    waiting, most = [], []
    copy, write = checkpoint_files.as_stored, checkpoint_files.to_safetensors

    def counting_copy(array):
        copied = copy(array)
        waiting.append(copied.nbytes)
        most.append(sum(waiting))
        return copied

    def slow_write(tensors):
        time.sleep(0.001)
        waiting.pop()
        return write(tensors)

    monkeypatch.setattr(checkpoint_files, "as_stored", counting_copy)
    monkeypatch.setattr(checkpoint_files, "to_safetensors", slow_write)
    array = made_rows()
    checkpoints = saved(tmp_path, {"rows": Rows.of(array, N_ROWS)}, max_copy_bytes=1000)
    # One more than is counted, of which the file is being made.
    assert max(most) <= 1000 + 16 * 16
    assert len(most) == 250
    np.testing.assert_array_equal(checkpoints.load()["rows"], array)


def test_copies_take_half_of_the_memory_that_the_process_may_use(tmp_path, monkeypatch):
    """The machine may have more than a container on it."""
    limits, write = [], store.Writing
    monkeypatch.setattr(store, "Writing", lambda *args: limits.append(args[4]) or write(*args))
    monkeypatch.setattr(machine, "cgroup_limits", lambda root: (None, 4096))
    saved(tmp_path, {"step": 1})
    assert limits == [2048]


def test_loading_needs_no_second_copy(tmp_path):
    array = np.ones((4 << 20, 8), np.uint8)  # 32 MiB.
    checkpoints = saved(tmp_path, {"rows": Rows.of(array, len(array))}, max_copy_bytes=1 << 20)
    other = np.zeros_like(array)
    tracemalloc.start()
    try:
        checkpoints.load()["rows"].read_into(other)
        loading = tracemalloc.get_traced_memory()[1]
        array[: len(array) // 100] = tracemalloc.reset_peak() or 2
        checkpoints.save({"rows": Rows.of(array, len(array))}, 2)
        assert checkpoints.wait()
        saving = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert other.all()
    assert loading < 4 << 20
    assert saving < 4 << 20
    new = sum(file.stat().st_size for file in new_files(checkpoints.latest()))
    assert new < 0.03 * array.nbytes


# --- Faults -------------------------------------------------------------------------------------


def test_a_full_disk_is_reported_later_and_ends_nothing(tmp_path, monkeypatch, lines):
    """``os.fsync`` is where the kernel may say so at the latest."""
    checkpoints = saved(tmp_path, {"x": np.ones(3)})

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        checkpoints.save({"x": np.zeros(3)}, 2)
        checkpoints.save({"x": np.zeros(3)}, 3)
        assert not checkpoints.wait()
        assert not checkpoints.wait()
    assert len(lines) == 2
    assert "checkpoint_000000002 was not written (OSError: [Errno 28] No space" in lines[0]
    assert names(tmp_path) == ["checkpoint_000000001"]
    assert checkpoints.load()["x"].all()
    checkpoints.save({"x": np.zeros(3)}, 4)
    assert checkpoints.wait()
    assert not checkpoints.load()["x"].any()


def test_a_copy_that_waits_for_memory_goes_on_if_the_disk_is_full(tmp_path, monkeypatch, lines):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    checkpoints = Checkpoints(tmp_path, max_copy_bytes=1)
    state = {name: Rows.of(np.zeros(9), 9) for name in "abc"}
    saving = threading.Thread(target=checkpoints.save, args=(state, 1), daemon=True)
    saving.start()
    saving.join(30)
    assert not saving.is_alive()
    assert not checkpoints.wait()


def fill_a_limit(directory, results):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    logger.log = results.put
    checkpoints = saved(directory, {"x": np.zeros(3)})
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    checkpoints.save({"x": np.zeros(100_000)}, 2)
    assert not checkpoints.wait()
    assert len(checkpoints.load()["x"]) == 3


def test_a_file_that_may_not_grow(tmp_path):
    results = fork.SimpleQueue()
    process = fork.Process(target=fill_a_limit, args=(tmp_path, results))
    process.start()
    assert "checkpoint_000000002 was not written (OSError: [Errno 27]" in results.get()
    process.join(60)
    assert process.exitcode == 0
    assert names(tmp_path) == ["checkpoint_000000001"]


def save_for_ever(directory, steps):
    array, checkpoints = np.zeros((20_000, 4)), Checkpoints(directory)
    for step in itertools.count(1):
        array[:] = step
        checkpoints.save({"rows": Rows.of(array, 20_000), "step": step}, step)
        steps.send(step)


@pytest.mark.parametrize("seed", range(2))
def test_killed_while_writing(tmp_path, monkeypatch, seed):
    """What is there is complete, and what is not is removed."""
    monkeypatch.setattr(checkpoint_arrays, "SMALLEST_SEGMENT", 4096)
    received, steps = fork.Pipe(duplex=False)
    process = fork.Process(target=save_for_ever, args=(tmp_path, steps))
    process.start()
    for _ in range(3):
        step = received.recv()
    time.sleep(np.random.default_rng(seed).random() * 0.05)
    process.kill()
    process.join(60)
    checkpoints = Checkpoints(tmp_path)
    assert all(name.startswith("checkpoint_") and "." not in name for name in names(tmp_path))
    state = checkpoints.load()
    assert state["step"] >= step - 1  # It was complete before the next one was begun.
    assert (np.asarray(state["rows"]) == state["step"]).all()


def test_a_directory_that_is_removed_before_it_is_locked_is_made_again(tmp_path):
    """By another process that opens the checkpoints at this very moment."""
    may_stop = threading.Event()

    def keep_removing():
        while not may_stop.is_set():
            Checkpoints(tmp_path)

    thread = threading.Thread(target=keep_removing)
    thread.start()
    try:
        for step in range(30):
            saved(tmp_path, {"step": step}, step)
    finally:
        may_stop.set()
        thread.join()
    assert Checkpoints(tmp_path).load() == {"step": 29}


def test_what_another_process_writes_now_is_no_leftover(tmp_path, monkeypatch):
    may_go_on = threading.Event()
    write = checkpoint_files.to_safetensors
    monkeypatch.setattr(
        checkpoint_files, "to_safetensors", lambda x: may_go_on.wait(30) and write(x)
    )
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"x": np.zeros(3)}, 1)
    wait_until(lambda: list(tmp_path.glob("*.tmp")))
    (tmp_path / "checkpoint_000000000.tmp").mkdir()
    Checkpoints(tmp_path)
    may_go_on.set()
    assert checkpoints.wait()
    assert names(tmp_path) == ["checkpoint_000000001"]


def test_an_interrupted_copy_leaves_nothing(tmp_path, monkeypatch, lines):
    def interrupt(array):
        raise KeyboardInterrupt

    checkpoints = Checkpoints(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_files, "as_stored", interrupt)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.save({"x": np.zeros(3)}, 1)
    assert not checkpoints.wait()
    assert names(tmp_path) == []
    checkpoints.save({"x": np.zeros(3)}, 1)
    assert checkpoints.wait()
