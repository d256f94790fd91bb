"""What decodes and reads screen recordings."""

from __future__ import annotations

from gce.adapters.recordings.text import text_reader
from gce.adapters.recordings.video import Video, jpeg

__all__ = ["Video", "jpeg", "text_reader"]
