"""The fast BLAS is put under mlx, or nothing is touched and the report says why."""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from present import present

from gce.adapters.models.backends.mlx import blas
from gce.adapters.models.backends.mlx.blas import one_numpy_blas_thread, use_fast_blas

ON_LINUX = sys.platform.startswith("linux") and platform.machine() in blas._MACHINES
linux_only = pytest.mark.skipif(not ON_LINUX, reason="the slots of the dynamic linker are redirected on Linux alone")


@pytest.fixture
def packages() -> None:
    pytest.importorskip("mlx.core")
    pytest.importorskip("scipy_openblas32")


def elf(*, machine: int | None = None, magic: bytes = b"\x7fELF\x02\x01") -> bytes:
    """A library that imports cblas_sgemm by a JUMP_SLOT, cblas_dgemm by a GLOB_DAT and printf, all 0x10000 off."""
    machine = blas._MACHINES[platform.machine()] if machine is None else machine
    jump, data = blas._RELOCATIONS.get(machine, (7, 6))
    names = b"\0cblas_sgemm\0cblas_dgemm\0printf\0"
    symbols = b"".join(struct.pack("<IBBHQQ", at, 0, 0, 0, 0, 0) for at in (0, 1, 13, 25))

    def relocation(slot: int, symbol: int, kind: int) -> bytes:
        return struct.pack("<QQq", slot, symbol << 32 | kind, 0)

    bound = relocation(0x11008, 1, jump) + relocation(0x11010, 3, jump)
    others = relocation(0x11018, 2, data) + relocation(0x11020, 1, 5) + relocation(0x11028, 2, data)
    start = 64 + 2 * 56
    places, at = {}, start
    for name, part in (("names", names), ("symbols", symbols), ("bound", bound), ("others", others)):
        places[name] = at + 0x10000
        at += len(part)
    tags = [(5, places["names"]), (6, places["symbols"]), (23, places["bound"]), (2, len(bound))]
    tags += [(7, places["others"]), (8, len(others)), (0, 0), (5, 1)]
    dynamic = b"".join(struct.pack("<qQ", *tag) for tag in tags)
    header = magic + bytes(10) + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    segments = struct.pack("<IIQQQQQQ", 1, 4, 0, 0x10000, 0, at + len(dynamic), 0, 0)
    segments += struct.pack("<IIQQQQQQ", 2, 4, at, at + 0x10000, 0, len(dynamic), 0, 0)
    return header + segments + names + symbols + bound + others + dynamic


@linux_only
def test_the_slots_are_read_from_the_elf_file() -> None:
    """sgemm has its JUMP_SLOT (its relocation of another type is none), dgemm both GLOB_DATs; printf is not asked."""
    assert blas._slot_offsets(elf()) == ({"cblas_sgemm": [0x11008], "cblas_dgemm": [0x11018, 0x11028]}, 0x10000)


@linux_only
@pytest.mark.parametrize(
    "image",
    [b"", b"not ELF" * 20, elf(magic=b"\x7fELF\x01\x01") if ON_LINUX else b"", elf(machine=3)[:200], elf()[:100]],
)
def test_a_file_that_is_no_library_of_this_machine_is_refused(image: bytes) -> None:
    with pytest.raises((ValueError, struct.error, StopIteration)):
        blas._slot_offsets(image)


@linux_only
def test_it_serves_mlx_and_says_so(packages: Any) -> None:
    report = use_fast_blas(1)
    assert report.active, report
    assert report.threads == 1 and report.name.startswith("OpenBLAS")
    again = use_fast_blas()
    assert again.active and again.reason == "already in place" and again.threads == 1


@linux_only
def test_the_slots_hold_addresses_inside_openblas(packages: Any) -> None:
    mx = pytest.importorskip("mlx.core")
    assert use_fast_blas().active
    slots = blas._slot_addresses((Path(mx.__file__).parent / "lib" / "libmlx.so").resolve())
    held = [blas._read(address) for places in slots.values() for address in places]
    homes = [path for value in held for start, end, _, path in blas._mappings() if start <= value < end]
    assert len(homes) == len(held) >= 3
    assert all("scipy_openblas32" in path for path in homes)


@linux_only
def test_products_equal_those_of_numpy(packages: Any) -> None:
    mx = pytest.importorskip("mlx.core")
    assert use_fast_blas().active
    left = np.random.Generator(np.random.Philox(1)).standard_normal((3, 70, 130)).astype(np.float32)
    right = np.random.Generator(np.random.Philox(2)).standard_normal((3, 130, 45)).astype(np.float32)
    with mx.stream(mx.cpu):
        assert np.allclose(np.array(mx.array(left) @ mx.array(right)), left @ right, atol=1e-4)
        transposed = mx.array(right).swapaxes(1, 2) @ mx.array(left).swapaxes(1, 2)
        assert np.allclose(np.array(transposed), (left @ right).swapaxes(1, 2), atol=1e-4)


@linux_only
def test_the_number_of_threads_can_be_set(packages: Any) -> None:
    assert use_fast_blas(2).threads == 2
    assert use_fast_blas(1).threads == 1
    with pytest.raises(ValueError, match="at least 1"):
        use_fast_blas(0)


@pytest.fixture
def own_slots(packages: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Slots in memory of ours, which hold the address of some function as mlx's did at first."""
    if not ON_LINUX:
        pytest.skip("the slots of the dynamic linker are redirected on Linux alone")
    code = present(ctypes.cast(ctypes.CDLL(None).printf, ctypes.c_void_p).value)
    memory = (ctypes.c_uint64 * 3)(code, code, code)
    first = ctypes.addressof(memory)
    slots = {name: [first + 8 * place] for place, name in enumerate(blas._SYMBOLS)}
    monkeypatch.setattr(blas, "_slot_addresses", lambda path: slots)
    return memory, code


def test_a_wrong_product_puts_the_old_addresses_back(own_slots: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, code = own_slots
    seen = []

    def wrong(core: Any) -> str:
        seen.extend(memory)
        return "a float32 product differs"

    monkeypatch.setattr(blas, "_wrong_product", wrong)
    report = use_fast_blas()
    assert not report.active and "a float32 product differs" in report.reason and report.threads is None
    assert all(value != code for value in seen) and len(seen) == 3
    assert list(memory) == [code] * 3


def test_a_slot_in_memory_that_is_not_writable_is_left_alone(own_slots: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, code = own_slots
    mappings = blas._mappings()
    monkeypatch.setattr(blas, "_mappings", lambda: [(a, b, flags.replace("w", "-"), p) for a, b, flags, p in mappings])
    report = use_fast_blas()
    assert not report.active and "not writable" in report.reason
    assert list(memory) == [code] * 3


def test_a_slot_that_does_not_point_at_code_is_left_alone(own_slots: Any) -> None:
    memory, code = own_slots
    memory[1] = ctypes.addressof(memory)
    report = use_fast_blas()
    assert not report.active and "address of code" in report.reason
    assert memory[0] == code and memory[2] == code


def test_a_library_that_imports_other_symbols_is_left_alone(own_slots: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_slot_addresses", lambda path: {"cblas_sgemm": [0]})
    report = use_fast_blas()
    assert not report.active and "cblas_dgemm" in report.reason


@linux_only
def test_without_the_package_the_report_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlx.core")
    monkeypatch.setitem(sys.modules, "scipy_openblas32", None)
    report = use_fast_blas()
    assert not report.active and report.reason == "scipy_openblas32 is not installed"
    assert report.name == "mlx's own" and report.threads is None


def test_other_systems_keep_their_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "darwin" in use_fast_blas().reason
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    report = use_fast_blas()
    assert not report.active and "riscv64" in report.reason


@linux_only
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first in, first out", "first in, last out"])
def test_numpy_has_one_thread_while_anybody_is_inside(order: tuple[int, int]) -> None:
    """And afterwards as many as before, in whatever order they leave."""
    libraries = blas._numpy_openblas()

    def threads() -> list[int]:
        return [getter() for _, getter in libraries]

    for setter, _ in libraries:
        setter(2)
    before = threads()
    inside = [one_numpy_blas_thread(), one_numpy_blas_thread()]
    for one in inside:
        one.__enter__()
        assert threads() == [1] * len(libraries)
    inside[order[0]].__exit__(None, None, None)
    assert threads() == [1] * len(libraries)
    inside[order[1]].__exit__(None, None, None)
    assert threads() == before
