"""What torch finds on this machine for a learner: devices, backends of torch.distributed, and bfloat16."""

from __future__ import annotations

from attrs import frozen

from gce.errors import MissingExtra

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    raise MissingExtra("torch", "hf") from error

__all__ = ["TorchDevices", "torch_devices"]


@frozen
class TorchDevices:
    """Devices of one kind, the best there is, and what they offer."""

    names: tuple[str, ...]
    """One for each GPU; that of the CPU if there is none."""
    distributed: tuple[str, ...]
    """Backends of torch.distributed that sum gradients between processes on these devices."""
    bfloat16: bool
    """Whether the hardware multiplies bfloat16 itself."""


def torch_devices() -> TorchDevices:
    """Examine this machine."""
    built = dist.is_available()
    if torch.cuda.is_available():
        names = tuple(torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count()))
        return TorchDevices(
            names, ("nccl",) if built and dist.is_nccl_available() else (), torch.cuda.is_bf16_supported()
        )
    if torch.backends.mps.is_available():
        return TorchDevices(("Apple's GPU",), (), True)
    gloo = ("gloo",) if built and dist.is_gloo_available() else ()
    return TorchDevices(("CPU",), gloo, torch.cpu._is_avx512_bf16_supported())
