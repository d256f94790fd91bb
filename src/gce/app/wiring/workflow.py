"""Videos and the text in them."""

from __future__ import annotations

from gce.adapters.workflow.text import line_text
from gce.adapters.workflow.video import brightness, jpeg, pictures, size_of

__all__ = ["brightness", "jpeg", "line_text", "pictures", "size_of"]
