"""`gce doctor`: each finding from facts given by hand, then the whole of it on this machine."""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from gce.adapters.models.backends.mlx.blas import BlasReport
from gce.adapters.models.backends.mlx.device import Device
from gce.app.commands import doctor
from gce.app.wiring import installation
from gce.app.wiring.installation import Finding

CPU, GPU = Device("cpu", "a CPU"), Device("gpu", "a GPU")


def packages_of(requirements: list[str]) -> list[str]:
    """Names of the requirements that hold on this platform, other extras of this package left out."""
    names = []
    for requirement in requirements:
        specifier, _, marker = requirement.partition(";")
        name = re.match(r"[\w.-]+", specifier)
        if name and name[0] != "grounded-eval" and (not marker or eval(marker, {"sys_platform": sys.platform})):
            names.append(name[0])
    return names


def test_the_table_of_extras_is_that_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {extra: packages_of(listed) for extra, listed in project["optional-dependencies"].items()}
    assert {extra: list(packages) for extra, packages in installation.EXTRAS.items()} == extras
    assert list(installation.CORE) == packages_of(project["dependencies"])


def test_an_installed_extra_is_listed_with_its_versions() -> None:
    finding = installation.examine_extra("test", ("pytest", "hypothesis"))
    assert finding == Finding("extra test", "ok", f"pytest {version('pytest')}, hypothesis {version('hypothesis')}")


def test_an_absent_extra_that_training_needs_is_missing_and_says_what_to_install() -> None:
    finding = installation.examine_extra("solver", ("numpy", "no-such-package"))
    assert finding == Finding(
        "extra solver",
        "missing",
        f"numpy {version('numpy')}, no-such-package not installed",
        "pip install 'grounded-eval[solver]'",
    )


def test_an_absent_extra_that_training_can_do_without_is_only_a_note() -> None:
    assert installation.examine_extra("report", ("no-such-package",)).status == "note"


def test_a_sandbox_that_holds_is_enough() -> None:
    finding = installation.examine_sandboxes({"bubblewrap": "", "namespaces": "no unshare"})
    assert finding == Finding("sandbox", "ok", "bubblewrap holds, namespaces no unshare")
    finding = installation.examine_sandboxes({"bubblewrap": "is not here"})
    assert (finding.status, finding.remedy[:23]) == ("note", "apt install bubblewrap,")


def test_the_fast_blas_is_named_with_its_threads() -> None:
    report = BlasReport("OpenBLAS 0.3 Zen", active=True, reason="mlx's slots point at it", threads=2)
    assert installation.examine_blas(report, CPU) == Finding("BLAS", "ok", "OpenBLAS 0.3 Zen, 2 threads")


@pytest.mark.parametrize(
    ("device", "platform", "status"), [(CPU, "linux", "slow"), (GPU, "linux", "ok"), (CPU, "darwin", "ok")]
)
def test_only_the_cpu_of_linux_is_slow_without_the_fast_blas(
    device: Device, platform: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    finding = installation.examine_blas(BlasReport("mlx's own", active=False, reason="numpy disagrees"), device)
    assert finding.status == status
    assert "numpy disagrees" in finding.detail
    assert bool(finding.remedy) == (status == "slow")


@pytest.mark.parametrize(
    ("device", "mlx", "numpy", "status"),
    [(CPU, 24.9, 100, "slow"), (CPU, 25.1, 100, "ok"), (CPU, 2.5, 130, "slow"), (GPU, 2.5, 130, "ok")],
)
def test_matrix_products_on_the_cpu_are_slow_below_a_quarter_of_the_rate_of_numpy(
    device: Device, mlx: float, numpy: float, status: str
) -> None:
    assert installation.examine_rate(mlx, numpy, device).status == status


def test_without_a_compiler_the_cpu_is_slow_and_the_gpu_is_not() -> None:
    assert installation.examine_compiler(None, CPU).status == "slow"
    assert installation.examine_compiler(None, GPU).status == "ok"
    assert installation.examine_compiler("/usr/bin/g++", CPU).detail == "/usr/bin/g++"


def test_torch_is_described_by_its_devices_and_how_processes_on_them_sum() -> None:
    pytest.importorskip("torch")
    from gce.adapters.models.backends.torch.device import TorchDevices, torch_devices

    gpus = TorchDevices(("NVIDIA H100", "NVIDIA H100"), ("nccl",), bfloat16=True)
    expected = "2 x NVIDIA H100; torch.distributed: nccl; bfloat16: in hardware"
    assert installation.examine_torch(gpus) == Finding("torch", "ok", expected)
    alone = TorchDevices(("CPU",), (), bfloat16=False)
    assert installation.examine_torch(alone).detail == "1 x CPU; torch.distributed: none; bfloat16: emulated"
    assert torch_devices().names


def test_a_model_is_missing_until_every_file_is_there(tmp_path: Path) -> None:
    assert installation.examine_model(tmp_path / "absent").status == "missing"
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"0" * 100_000)
    half = installation.examine_model(tmp_path)
    assert (half.status, half.detail) == ("missing", f"no *.safetensors in {tmp_path}")
    (tmp_path / "model.safetensors").write_bytes(b"0" * 2_000_000)
    assert installation.examine_model(tmp_path) == Finding("model gce-tiny", "ok", f"2.2 MB in {tmp_path}")


def test_slow_findings_and_notes_do_not_keep_one_from_training() -> None:
    findings = [Finding("a", "ok", ""), Finding("b", "slow", "", "mend b"), Finding("c", "note", "", "mend c")]
    assert installation.ready(findings)
    assert not installation.ready([*findings, Finding("d", "missing", "", "mend d")])


def test_the_report_puts_remedies_below_and_sums_up(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.print_report([Finding("a", "ok", "fine"), Finding("long", "slow", "creeps", "hurry")])
    assert capsys.readouterr().out.splitlines() == [
        "ok      a     fine",
        "slow    long  creeps",
        "              -> hurry",
        "",
        "Ready to train, but slow: long.",
    ]


def test_a_status_outside_the_four_is_refused() -> None:
    with pytest.raises(ValueError, match="broken"):
        Finding("a", "broken", "")  # type: ignore[arg-type]


def test_without_mlx_the_doctor_says_what_to_install_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    assert doctor.run(parser.parse_args(["--json"])) == 1
    printed = json.loads(capsys.readouterr().out)
    assert not printed["ready"]
    found = {finding["name"]: finding for finding in printed["findings"]}
    assert found["device"]["status"] == "missing"
    assert found["device"]["remedy"] == "pip install 'grounded-eval[mlx]'"
    assert found["core"]["status"] == "ok"
    assert "BLAS" not in found


@pytest.mark.slow
def test_with_mlx_the_doctor_measures_its_matrix_products() -> None:
    pytest.importorskip("mlx.core")
    found = {finding.name: finding for finding in installation.examine()}
    rates = re.match(r"(\d+) GFLOP/s in float32 by mlx on the \w+, (\d+) by numpy", found["matrix products"].detail)
    assert rates and int(rates[1]) > 0 and int(rates[2]) > 0
    assert {"Python", "gce", "core", "cores", "device", "BLAS", "C++ compiler", "model gce-tiny"} <= set(found)
    assert all(finding.remedy for finding in found.values() if finding.status != "ok")
