"""What records become in other libraries."""

from __future__ import annotations

from gce.adapters.datasets.data_frames import data_frame

__all__ = ["data_frame"]
