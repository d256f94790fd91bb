"""A fast BLAS for mlx's CPU backend on Linux, whose published wheel links the reference BLAS.

mlx's library calls `cblas_sgemm`, `cblas_dgemm` and `cblas_cgemm` through slots that the dynamic linker fills (the
global offset table). After mlx is imported, this module points those slots at OpenBLAS from the package
`scipy-openblas32`, whose symbols have the prefix `scipy_` and so cannot be preloaded under the plain names. It reads
the positions of the slots from the ELF file, writes only where /proc/self/maps shows a writable mapping, checks the
products against numpy, and restores the old addresses if anything is wrong. It never raises: the report says what
happened. Independent of models.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import platform
import struct
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

__all__ = ["BlasReport", "one_numpy_blas_thread", "use_fast_blas"]

_SYMBOLS = ("cblas_sgemm", "cblas_dgemm", "cblas_cgemm")

# ELF machine -> relocation types that hold the address of an imported function (JUMP_SLOT, GLOB_DAT).
_RELOCATIONS = {62: (7, 6), 183: (1026, 1025)}
_MACHINES = {"x86_64": 62, "aarch64": 183}
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_PLTRELSZ, _DT_STRTAB, _DT_SYMTAB, _DT_RELA, _DT_RELASZ, _DT_JMPREL = 2, 5, 6, 7, 8, 23

_entering = threading.Lock()
_inside = 0
_before: list[int] = []


@frozen
class BlasReport:
    """The BLAS that serves mlx's CPU backend in this process."""

    name: str
    """For display: the library with version and kernel, or `mlx's own`."""
    active: bool
    """True if the fast BLAS serves mlx now."""
    reason: str
    """Why it is active or not, in one clause."""
    threads: int | None = None
    """Threads of the fast BLAS; None if it is not active."""


def use_fast_blas(threads: int | None = None) -> BlasReport:
    """Point mlx's matrix products at OpenBLAS and set its number of threads (None keeps OpenBLAS's own choice).

    Call it before heavy work, from one thread. A second call changes only the number of threads.
    """
    if threads is not None and threads < 1:
        raise ValueError(f"expected at least 1 thread or None, got {threads!r}")
    if not sys.platform.startswith("linux"):
        return _inactive(f"only needed on Linux, this is {sys.platform}")
    if platform.machine() not in _MACHINES:
        return _inactive(f"not known how to on {platform.machine()}, only on {' and '.join(_MACHINES)}")
    try:
        core = importlib.import_module("mlx.core")
        package = importlib.import_module("scipy_openblas32")
    except ImportError as error:
        return _inactive(f"{error.name} is not installed")
    try:
        return _redirect(core, Path(package.get_lib_dir()), threads)
    except (OSError, struct.error, LookupError, ValueError, AttributeError, StopIteration) as error:
        return _inactive(f"could not redirect mlx's library: {type(error).__name__}: {error}")


@contextlib.contextmanager
def one_numpy_blas_thread() -> Iterator[None]:
    """Limit numpy's OpenBLAS to one thread within the context; does nothing if numpy uses another BLAS.

    This is fastest for many small products from several Python threads. The limit applies to the whole process: the
    first thread to enter saves the old limit, and the last one to leave restores it, in any order.
    """
    global _inside, _before
    libraries = _numpy_openblas()
    with _entering:
        if not _inside:
            _before = [int(getter()) for _, getter in libraries]
            for setter, _ in libraries:
                setter(1)
        _inside += 1
    try:
        yield
    finally:
        with _entering:
            _inside -= 1
            if not _inside:
                for (setter, _), threads in zip(libraries, _before, strict=True):
                    setter(threads)


def _inactive(reason: str) -> BlasReport:
    return BlasReport(name="mlx's own", active=False, reason=reason)


def _redirect(core: Any, directory: Path, threads: int | None) -> BlasReport:
    library = ctypes.CDLL(str(next(directory.glob("libscipy_openblas*.so*"))))
    targets = {name: _address(library, f"scipy_{name}") for name in _SYMBOLS}
    mlx_library = (Path(core.__file__).parent / "lib" / "libmlx.so").resolve()
    slots = _slot_addresses(mlx_library)
    if set(slots) != set(_SYMBOLS):
        return _inactive(f"{mlx_library.name} does not import {' '.join(sorted(set(_SYMBOLS) - set(slots)))}")
    wanted = {address: targets[name] for name, places in slots.items() for address in places}
    refusal = _refusal(wanted)
    if refusal:
        return _inactive(refusal)
    already = _holds(wanted)
    if not already:
        old = {address: _read(address) for address in wanted}
        _write(wanted)
        wrong = _wrong_product(core) if _holds(wanted) else "the slots did not change"
        if wrong:
            _write(old)
            return _inactive(f"put back mlx's own BLAS: {wrong}")
    if threads is not None:
        library.scipy_openblas_set_num_threads(ctypes.c_int(threads))
    return BlasReport(
        name=_describe(library),
        active=True,
        reason="already in place" if already else "mlx's slots point at it",
        threads=int(library.scipy_openblas_get_num_threads()),
    )


def _describe(library: ctypes.CDLL) -> str:
    library.scipy_openblas_get_config.restype = ctypes.c_char_p
    library.scipy_openblas_get_corename.restype = ctypes.c_char_p
    version = " ".join(library.scipy_openblas_get_config().decode().split()[:2])
    return f"{version} {library.scipy_openblas_get_corename().decode()}"


def _address(library: ctypes.CDLL, symbol: str) -> int:
    address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
    if address is None:
        raise ValueError(f"{symbol} has no address")
    return address


def _read(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _write(values: Mapping[int, int]) -> None:
    for address, value in values.items():
        ctypes.c_uint64.from_address(address).value = value


def _holds(values: Mapping[int, int]) -> bool:
    return all(_read(address) == value for address, value in values.items())


def _mappings() -> list[tuple[int, int, str, str]]:
    """Return start, end, permissions and path of each memory mapping of this process."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        start, end = (int(part, 16) for part in fields[0].split("-"))
        found.append((start, end, fields[1], fields[5] if len(fields) == 6 else ""))
    return found


def _refusal(wanted: Mapping[int, int]) -> str:
    """Return why these addresses may not be read or these values not written there; empty if they may."""
    mappings = _mappings()

    def permissions(address: int) -> str:
        return next((flags for start, end, flags, _ in mappings if start <= address < end), "")

    for address in wanted:
        if address % 8 or not permissions(address).startswith("rw"):
            return f"a slot of mlx's library lies in memory marked {permissions(address) or 'unmapped'!r}, not writable"
        if "x" not in permissions(_read(address)):
            return "a slot of mlx's library does not hold the address of code"
    if not all("x" in permissions(target) for target in wanted.values()):
        return "a symbol of OpenBLAS does not lie in code"
    return ""


@functools.cache
def _slot_addresses(path: Path) -> dict[str, list[int]]:
    """Return the addresses at which the library at `path` keeps its imported BLAS functions in this process."""
    offsets, lowest = _slot_offsets(path.read_bytes())
    starts = [start for start, _, _, mapped in _mappings() if mapped == str(path)]
    if not starts:
        raise LookupError(f"{path} is not mapped")
    base = min(starts) - lowest
    return {name: [base + offset for offset in places] for name, places in offsets.items()}


def _slot_offsets(image: bytes) -> tuple[dict[str, list[int]], int]:
    """Return the virtual address of each relocation slot of the BLAS symbols, and the lowest page that the file maps.

    ELF-64 as in the System V ABI: program headers lead to the dynamic section, which leads to symbols and relocations.
    """
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a little-endian 64-bit ELF file")
    (machine,) = struct.unpack_from("<H", image, 18)
    if machine != _MACHINES[platform.machine()]:
        raise ValueError(f"ELF machine {machine} is not this machine's")
    (table,) = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", image, table + i * size) for i in range(count)]
    loads: list[tuple[int, int, int]] = [
        (virtual, offset, length) for kind, _, offset, virtual, _, length, _, _ in headers if kind == _PT_LOAD
    ]

    def place(virtual: int) -> int:
        return next(o + virtual - start for start, o, length in loads if start <= virtual < start + length)

    _, _, offset, _, _, length, _, _ = next(header for header in headers if header[0] == _PT_DYNAMIC)
    tags: dict[int, int] = {}
    for tag, value in struct.iter_unpack("<qQ", image[offset : offset + length]):
        if tag == 0:
            break
        tags.setdefault(tag, value)
    symbols, strings = place(tags[_DT_SYMTAB]), place(tags[_DT_STRTAB])
    found: dict[str, list[int]] = {}
    for start, extent in ((_DT_JMPREL, _DT_PLTRELSZ), (_DT_RELA, _DT_RELASZ)):
        if start not in tags:
            continue
        begin = place(tags[start])
        for slot, info, _ in struct.iter_unpack("<QQq", image[begin : begin + tags[extent]]):
            if info & 0xFFFFFFFF in _RELOCATIONS[machine]:
                (name_at,) = struct.unpack_from("<I", image, symbols + (info >> 32) * 24)
                name = image[strings + name_at : image.index(b"\0", strings + name_at)].decode()
                if name in _SYMBOLS:
                    found.setdefault(name, []).append(slot)
    return found, min(virtual for virtual, _, _ in loads) & ~0xFFF


def _wrong_product(core: Any) -> str:
    """Return what is wrong with mlx's matrix products; empty if nothing is."""
    import numpy as np

    draw = np.random.Generator(np.random.Philox(0))
    for dtype, tolerance in ((np.float32, 1e-4), (np.float64, 1e-10), (np.complex64, 1e-4)):
        left: Any = draw.standard_normal((2, 33, 70)).astype(dtype)
        right: Any = draw.standard_normal((2, 41, 70)).astype(dtype)
        if dtype is np.complex64:
            left, right = left * (1 + 2j), right * (3 - 1j)
        with core.stream(core.cpu):
            # By default, mx.array converts float64 to float32.
            kind = getattr(core, np.dtype(dtype).name)
            product = np.array(core.array(left, kind) @ core.swapaxes(core.array(right, kind), 1, 2))
        expected = left @ right.swapaxes(1, 2)
        if not np.allclose(product, expected, rtol=tolerance, atol=tolerance * 70):
            return f"a {np.dtype(dtype).name} product differs from numpy's by {np.abs(product - expected).max():.3g}"
    return ""


@functools.cache
def _numpy_openblas() -> list[tuple[Any, Any]]:
    """Return setter and getter of the thread count of each OpenBLAS in this process, except the one under mlx."""
    import numpy  # noqa: F401  (its BLAS must be loaded before it can be found)

    found = []
    with contextlib.suppress(OSError):
        for path in sorted({mapped for _, _, _, mapped in _mappings() if "openblas" in Path(mapped).name}):
            if "scipy_openblas32" in path:
                continue
            library = ctypes.CDLL(path)
            for prefix, suffix in (("scipy_", "64_"), ("", "64_"), ("scipy_", ""), ("", "")):
                name = f"{prefix}openblas_{{}}_num_threads{suffix}"
                if hasattr(library, name.format("set")):
                    found.append((getattr(library, name.format("set")), getattr(library, name.format("get"))))
                    break
    return found
