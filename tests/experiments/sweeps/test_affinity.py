"""Affinity codes: written and read alike, and the CPUs and GPUs that each slot gets."""

from __future__ import annotations

import itertools

import pytest

from rlpyt.experiments.sweeps import affinity
from rlpyt.experiments.sweeps.affinity import (
    affinity_from_code,
    build_affinities_gpu_1cpu_drive,
    build_async_affinity,
    decode_affinity,
    encode_affinity,
    get_n_run_slots,
    make_affinity,
    prepend_run_slot,
    quick_affinity_code,
    remove_run_slot,
)
from rlpyt.experiments.sweeps.pools import run_call
from rlpyt.experiments.sweeps.slots import Slot

ONE_SOCKET = {"n_socket": 1, "hyperthread_offset": 0}


def encode(**kwargs):
    return encode_affinity(**{**ONE_SOCKET, **kwargs})


# --- Codes -----------------------------------------------------------------------------------


def test_code_of_defaults():
    assert encode() == "1cpu_0gpu_1cpr_0hto"


def test_code_with_all_options():
    """A code is written and counted also where no run can be placed by it."""
    code = encode(
        n_cpu_core=16,
        n_gpu=8,
        contexts_per_gpu=2,
        gpu_per_run=2,
        cpu_per_worker=2,
        hyperthread_offset=24,
        n_socket=2,
        cpu_reserved=1,
        run_slot=3,
        async_sample=True,
        sample_gpu_per_run=1,
        optim_sample_share_gpu=True,
        alternating=True,
        set_affinity=False,
    )
    assert code == "3slt_16cpu_8gpu_2cxg_2gpr_2cpw_24hto_2skt_1res_1ass_1sgr_1oss_1alt_0saf"
    assert get_n_run_slots(code) == 4


def test_hyperthread_offset_equal_to_the_cores_is_left_out():
    assert encode(n_cpu_core=4, cpu_per_run=2, hyperthread_offset=4) == "4cpu_0gpu_2cpr"


def test_code_reads_back():
    assert decode_affinity("1slt_4cpu_0gpu_2cpr") == {"slt": 1, "cpu": 4, "gpu": 0, "cpr": 2}
    assert remove_run_slot(prepend_run_slot(12, "4cpu_0gpu_2cpr")) == (12, "4cpu_0gpu_2cpr")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        *(
            (code, "affinity_code=")
            for code in ("4cpu_0gpu_2xyz", "cpu4", "4cpu__1cpr", "-1cpu", "")
        ),
        ("4cpu_0gpu", "lacks cpr"),
        ("5cpu_0gpu_2cpr", "cpu=5 .*cpr=2"),
        ("4cpu_2gpu_1sgr", "sgr needs ass"),
        ("4cpu_0gpu_1cpr_1ass_1sgr", "sgr .* needs gpu"),
        *(
            (f"2cpu_2gpu_1ass_0{letters}", f"{letters} must be at least 1")
            for letters in ("cpu", "cxg", "gpr", "cpr", "cpw", "skt")
        ),
    ],
)
def test_codes_that_describe_no_slots_are_refused(code, message):
    with pytest.raises(ValueError, match=message):
        get_n_run_slots(code)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("4cpu_0gpu_2cpr", "run slot"),
        ("2slt_4cpu_0gpu_2cpr", "2 slots"),  # It was given cores beyond those of the machine.
        ("0slt_4cpu_2gpu_2cxg_2gpr", "excludes gpr"),
        ("0slt_4cpu_2gpu_2cxg_1ass", "excludes ass"),
        ("0slt_2cpu_0gpu_2cpr_2res", "res=2 .* leaves none"),
        ("0slt_1cpu_1gpu_1ass", "res=1"),
        ("0slt_8cpu_1gpu_1ass_1sgr", "sgr=1"),
        ("0slt_2cpu_3gpu_1ass_2sgr", "too few for workers"),
        ("4slt_8cpu_4gpu_1ass", "slot 4"),
    ],
)
def test_slots_that_cannot_be_are_refused(code, message):
    with pytest.raises(ValueError, match=message):
        affinity_from_code(code)


@pytest.mark.parametrize(
    ("code", "n_slots"),
    [
        ("4cpu_0gpu_2cpr", 2),
        ("8cpu_2gpu_2cxg", 4),
        ("16cpu_8gpu_2gpr", 4),
        ("16cpu_8gpu_1ass_1sgr", 4),
        ("16cpu_8gpu_1gpr_1ass_1sgr_1oss", 8),
        ("8cpu_0gpu_4cpr_1ass", 2),
    ],
)
def test_number_of_slots(code, n_slots):
    assert get_n_run_slots(code) == n_slots


def test_slots_of_cpu_runs_can_be_encoded():
    """Slots were compared with the number of GPUs, so that only slot 0 of a CPU run worked."""
    assert encode(n_cpu_core=4, cpu_per_run=2, run_slot=1) == "1slt_4cpu_0gpu_2cpr_0hto"
    with pytest.raises(ValueError, match="slot 2"):
        encode(n_cpu_core=4, cpu_per_run=2, run_slot=2)


def test_quick_code_uses_this_machine():
    code = quick_affinity_code(n_parallel=1, use_gpu=False)
    assert get_n_run_slots(code) == 1
    with pytest.raises(ValueError, match="n_parallel"):
        quick_affinity_code(use_gpu=False)
    with pytest.raises(ValueError, match="n_parallel is 0"):
        quick_affinity_code(n_parallel=0)


@pytest.mark.parametrize("n_gpu", [0, 3, 4])
@pytest.mark.parametrize("n_parallel", [1, 2, 3, 6])
def test_every_slot_of_a_quick_code_works_on_two_sockets(monkeypatch, n_gpu, n_parallel):
    """Runs that do not divide among the sockets are placed as on one."""
    monkeypatch.setattr(affinity, "get_n_socket", lambda: 2)
    monkeypatch.setattr(affinity.psutil, "cpu_count", lambda logical=True: 12)
    monkeypatch.setattr(affinity.psutil.Process, "cpu_affinity", lambda self: [*range(12)])
    monkeypatch.setattr(affinity.torch.cuda, "device_count", lambda: n_gpu)
    code = quick_affinity_code(n_parallel, use_gpu=n_gpu > 0)
    slots = range(get_n_run_slots(code))
    cpus = [affinity_from_code(prepend_run_slot(slot, code))["all_cpus"] for slot in slots]
    assert len(cpus) == min(n_parallel, n_gpu or n_parallel)
    assert len({cpu for own in cpus for cpu in own}) == sum(map(len, cpus))


@pytest.mark.parametrize(
    ("n_cpu", "n_gpu", "contexts_per_gpu", "slots"),
    [
        (2, 4, 1, [(0,), (1,)]),
        (5, 2, 3, [(0,), (2,), (1,), (3,)]),  # Runs are spread over the GPUs first.
    ],
)
def test_a_quick_code_names_no_cpu_that_is_not_there(
    monkeypatch, n_cpu, n_gpu, contexts_per_gpu, slots
):
    in_a_job(monkeypatch, [*range(n_cpu)])
    monkeypatch.setattr(affinity.torch.cuda, "device_count", lambda: n_gpu)
    code = quick_affinity_code(contexts_per_gpu=contexts_per_gpu)
    numbers = range(get_n_run_slots(code))
    runs = [affinity_from_code(prepend_run_slot(slot, code)) for slot in numbers]
    assert [run.all_cpus for run in runs] == slots


# --- Jobs with some of the CPUs --------------------------------------------------------------


def in_a_job(monkeypatch, cpus, hyperthread_offset=0):
    monkeypatch.setattr(affinity.psutil.Process, "cpu_affinity", lambda self: cpus, raising=False)
    monkeypatch.setattr(affinity, "get_hyperthread_offset", lambda: hyperthread_offset)


def test_a_job_is_pinned_to_its_only_cpu(monkeypatch):
    in_a_job(monkeypatch, [1])
    (run,) = [affinity_from_code(f"0slt_{quick_affinity_code(2, use_gpu=False)}")]
    assert (run.all_cpus, run.workers_cpus) == ((1,), ((1,),))
    assert make_affinity(n_cpu_core=1, cpu_per_run=1).master_cpus == (1,)


def test_runs_share_the_cpus_of_a_job(monkeypatch):
    in_a_job(monkeypatch, [2, 3, 6, 7], hyperthread_offset=4)
    code = quick_affinity_code(n_parallel=2, use_gpu=False)
    runs = [affinity_from_code(prepend_run_slot(slot, code)) for slot in range(2)]
    assert [run.workers_cpus for run in runs] == [((2, 6),), ((3, 7),)]
    asynchronous = make_affinity(n_cpu_core=2, cpu_per_run=2, async_sample=True)
    assert asynchronous.optimizer[0].cpus == (2, 6)
    assert asynchronous.sampler.workers_cpus == ((3, 7),)


def test_a_run_that_was_pinned_by_its_launcher_has_the_same_cpus(monkeypatch):
    in_a_job(monkeypatch, [4, 5, 6])
    slot = Slot(decode_affinity("3cpu_0gpu_1cpr_0hto_1skt"), 2)
    call = run_call("script.py", slot, "log", 0, [])
    assert call[:4] == ["taskset", "-c", "6", "env"]
    name, _, value = call[4].partition("=")
    monkeypatch.setenv(name, value)
    in_a_job(monkeypatch, [6])
    assert affinity_from_code(slot.code).all_cpus == (6,)


def test_a_code_for_another_machine_keeps_its_numbers(monkeypatch):
    in_a_job(monkeypatch, [1, 2])
    assert affinity_from_code("1slt_4cpu_0gpu_2cpr_0hto_1skt").all_cpus == (2, 3)
    assert affinity_from_code("2slt_3cpu_0gpu_1cpr_0hto_1skt").all_cpus == (2,)


# --- Without GPU -----------------------------------------------------------------------------


def test_cores_with_hyperthreads():
    a = affinity_from_code("1slt_4cpu_0gpu_2cpr")
    assert a.all_cpus == a.master_cpus == (2, 3, 6, 7)
    assert a.workers_cpus == ((2, 6), (3, 7))
    assert (a.master_torch_threads, a.worker_torch_threads) == (2, 1)
    assert a.set_affinity is True
    assert a.alternating is False
    assert "cuda_idx" not in a


def test_reserved_core_has_no_worker():
    a = affinity_from_code("0slt_4cpu_0gpu_4cpr_0hto_1res")
    assert a.all_cpus == (0, 1, 2, 3)
    assert a.workers_cpus == ((1,), (2,), (3,))


def test_alternating_workers_have_hyperthreads_or_share():
    eight = tuple((cpu,) for cpu in range(8))
    assert affinity_from_code("0slt_4cpu_0gpu_4cpr_1alt").workers_cpus == eight
    twice = tuple((cpu,) for cpu in (*range(4), *range(4)))
    assert affinity_from_code("0slt_4cpu_0gpu_4cpr_0hto_1alt").workers_cpus == twice


def test_two_cores_per_worker():
    a = affinity_from_code("0slt_4cpu_0gpu_4cpr_2cpw")
    assert a.workers_cpus == ((0, 1, 4, 5), (2, 3, 6, 7))
    assert a.worker_torch_threads == 2


@pytest.mark.parametrize(("cpr", "skt"), [*itertools.product([1, 2, 4, 8], [1, 2, 4])])
def test_slots_share_no_cpu_and_use_all(cpr, skt):
    slots = [
        make_affinity(s, n_cpu_core=8, cpu_per_run=cpr, n_socket=skt, hyperthread_offset=8).all_cpus
        for s in range(8 // cpr)
    ]
    assert sorted(cpu for cpus in slots for cpu in cpus) == list(range(16))


# --- With GPUs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slot", "cores", "cuda_idx"), [(0, (0, 1), 0), (1, (4, 5), 1), (2, (2, 3), 0), (3, (6, 7), 1)]
)
def test_runs_that_share_gpus_fill_different_ones_first(slot, cores, cuda_idx):
    a = affinity_from_code(f"{slot}slt_8cpu_2gpu_2cxg_0hto")
    assert (a.all_cpus, a.cuda_idx) == (cores, cuda_idx)


def test_several_gpus_per_run_over_sockets():
    two = affinity_from_code("3slt_16cpu_8gpu_2gpr_24hto_2skt")
    assert [a.cuda_idx for a in two] == [6, 7]
    assert [a.all_cpus for a in two] == [(16, 17, 40, 41), (18, 19, 42, 43)]


def test_driver_core_of_each_gpu():
    a = build_affinities_gpu_1cpu_drive(1, gpu=2, cpu=8, hto=0)
    assert a.master_cpus == (4,)
    assert a.workers_cpus == ((5,), (6,), (7,))
    assert a.cuda_idx == 1


# --- Asynchronous ----------------------------------------------------------------------------


def halves(a):
    """CPUs and GPU of each optimizer and of each sampler."""
    samplers = a.sampler if isinstance(a.sampler, list) else [a.sampler]
    return (
        [(one.cpus, one.cuda_idx) for one in a.optimizer],
        [(one.all_cpus, one.cuda_idx) for one in samplers],
    )


def test_async_cpu_sampler():
    a = build_async_affinity(0, gpu=1, cpu=3, hto=0)
    assert halves(a) == ([((0,), 0)], [((1, 2), None)])
    assert a.sampler.workers_cpus == ((1,), (2,))
    assert a.all_cpus == (0, 1, 2)


def test_async_optimizers_and_samplers_on_the_same_gpus():
    a = build_async_affinity(0, gpu=2, cpu=8, gpr=2, oss=1, hto=0)
    assert halves(a) == ([((0,), 0), ((1,), 1)], [((2, 3, 4), 0), ((5, 6, 7), 1)])
    a = build_async_affinity(0, gpu=2, cpu=8, gpr=2, oss=1, hto=0, res=2)
    assert halves(a) == ([((0, 1), 0), ((2, 3), 1)], [((4, 5), 0), ((6, 7), 1)])


def test_async_cores_that_make_no_whole_worker_stay_unused():
    a = build_async_affinity(0, gpu=1, cpu=4, cpw=2, hto=0)
    assert halves(a) == ([((0,), 0)], [((1, 2), None)])
    a = build_async_affinity(0, gpu=3, cpu=12, sgr=2, cpw=2, hto=0)
    assert halves(a)[1] == [((1, 2, 3, 4), 1), ((5, 6, 7, 8), 2)]


def test_async_on_the_second_socket():
    a = build_async_affinity(1, gpu=4, cpu=8, sgr=1, hto=8, skt=2)
    assert halves(a) == ([((4, 12), 2)], [((5, 6, 7, 13, 14, 15), 3)])
    assert a.sampler[0].workers_cpus == ((5, 13), (6, 14), (7, 15))
    a = build_async_affinity(1, gpu=4, cpu=8, sgr=1, hto=0)  # As the second on one socket.
    assert halves(a) == ([((4,), 2)], [((5, 6, 7), 3)])


def test_async_alternating_over_two_action_servers():
    a = build_async_affinity(0, gpu=4, cpu=24, sgr=2, hto=24, alt=1)
    assert [(one.cpus, one.cuda_idx) for one in a.optimizer] == [((0, 24), 0)]
    assert [one.cuda_idx for one in a.sampler] == [1, 2]
    first = tuple((cpu,) for cpu in (*range(1, 12), *range(25, 36)))
    second = tuple((cpu,) for cpu in (*range(12, 23), *range(36, 47)))
    assert [one.workers_cpus for one in a.sampler] == [first, second]


def test_async_run_over_two_sockets():
    a = build_async_affinity(0, gpu=4, cpu=8, gpr=2, sgr=2, hto=0, skt=2)
    assert halves(a) == ([((0,), 0), ((4,), 2)], [((1, 2, 3), 1), ((5, 6, 7), 3)])


def test_async_without_gpu():
    """Asynchronous codes without GPU ended in a TypeError."""
    a = make_affinity(
        1, n_cpu_core=4, cpu_per_run=2, async_sample=True, hyperthread_offset=0, n_socket=1
    )
    assert halves(a) == ([((2,), None)], [((3,), None)])


def test_async_optimizer_without_cores_of_its_own_shares_them():
    """No code could say so."""
    a = affinity_from_code("0slt_2cpu_0gpu_2cpr_0hto_0res_1ass")
    assert halves(a) == ([((0, 1), None)], [((0, 1), None)])


def test_machine_is_described(monkeypatch):
    monkeypatch.setattr(affinity.psutil, "cpu_count", lambda logical=True: 8 if logical else 4)
    assert affinity.get_hyperthread_offset() == 4
    monkeypatch.setattr(affinity.psutil, "cpu_count", lambda logical=True: 8)
    assert affinity.get_hyperthread_offset() == 0
    text = "".join(f"processor\t: {n}\nphysical id\t: {n % 2}\n" for n in range(4))
    monkeypatch.setattr(affinity.Path, "read_text", lambda path: text)
    assert affinity.get_n_socket() == 2
    monkeypatch.setattr(affinity.Path, "read_text", lambda path: "processor\t: 0\n")
    assert affinity.get_n_socket() == 1
