"""Performance tasks: which adapters read, fetch and measure them."""

from __future__ import annotations

from gce.adapters.performance.measuring import Measuring
from gce.adapters.sandboxes.unsafe_local import start_unsafe_local
from gce.app.wiring.sandboxes import AUTO, SANDBOXES, UNSAFE, why_not
from gce.errors import BadInput

__all__ = ["find_measuring"]


def find_measuring(runner: str = AUTO) -> Measuring:
    """Return what compares versions of code, in the first sandbox that works here and passes `Measuring.check`.

    Raises:
        BadInput: there is none.
    """
    reasons = {}
    for name in SANDBOXES if runner == AUTO else (runner,):
        try:
            found = Measuring(start_unsafe_local if name == UNSAFE else SANDBOXES[name])
            reasons[name] = "" if name == UNSAFE else why_not(name)
            if not reasons[name]:
                found.check()
                return found
        except BadInput as error:
            reasons[name] = str(error)
    raise BadInput(
        "code is measured in a sandbox, and none works here: "
        + "; ".join(f"{name}: {reason}" for name, reason in reasons.items()),
        hint="install bubblewrap (apt install bubblewrap, or pip install 'grounded-eval[programs]') on a Linux "
        "system that allows user namespaces",
    )
