"""`gce serve-policy`: a model behind OpenAI's chat format, whose adapter clients exchange while it runs."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from gce.app.evaluation.checkpoints import shape_of
from gce.app.options import DECIMAL, NAME, NAMES, PATH, RANK, RUN, THREADS, Choice, Count
from gce.app.settings.records import LoraSettings, ModelSettings, TrainSettings
from gce.app.web import address
from gce.app.web.policy.adapters import Policy
from gce.app.wiring.models import SHIPPED_MODEL, find_model
from gce.app.wiring.runs import find_adapter
from gce.app.wiring.tasks import find_task
from gce.domain.learning import ModelState
from gce.errors import BadInput, MissingExtra
from gce.ports.model import Adaptable, Sampler

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Serve a model over OpenAI's chat format (POST /v1/chat/completions, GET /v1/models). Clients load and unload LoRA
adapters while it runs (POST /v1/load_lora_adapter, as vLLM), and each reply names the weights that wrote it. It listens
on this machine alone; any other address needs a token. Needs the extra `web`.

`gce train --sampler http://HOST:PORT/v1` writes the rollouts of a run with it.
"""
EXAMPLES = """\
examples:
  gce serve-policy                                           gce-tiny, at http://127.0.0.1:8200/v1
  gce serve-policy --model hf:OWNER/NAME --rank 32
  gce serve-policy --adapter runs/1                          the base as gce-tiny, the trained model as "adapter"
  GCE_TOKEN=$(openssl rand -hex 16) gce serve-policy --host 0.0.0.0
"""
ADAPTER = "adapter"
SHAPE = ("rank", "scale", "target_modules")
"""Options that are settings of an adapter."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce serve-policy`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--model",
        type=NAME,
        default=SHIPPED_MODEL,
        help=f"model to serve, of a backend that takes adapters (default {SHIPPED_MODEL})",
    )
    parser.add_argument("--adapter", type=RUN, help=f"adapter of a run, or PEFT's, to load first, as {ADAPTER!r}")
    parser.add_argument("--rank", type=RANK, help="rank of the adapters that clients load (default 16)")
    parser.add_argument("--scale", type=DECIMAL, help="scale of these adapters, alpha / rank in PEFT (default 2.0)")
    parser.add_argument(
        "--target-modules",
        type=NAMES,
        metavar="NAME,...",
        help="linears that these adapters adapt in their blocks, such as q_proj,v_proj (default all-linear)",
    )
    parser.add_argument(
        "--adapters", type=PATH, metavar="DIR", help="folder of adapters that clients may name by a path in it"
    )
    parser.add_argument(
        "--adapter-mib",
        type=Count(1, 2**16),
        default=256,
        metavar="MIB",
        help="maximum size of an adapter (default 256)",
    )
    parser.add_argument(
        "--device",
        type=Choice(("cpu",)),
        choices=("cpu",),
        help="device of the model: cpu forces the CPU (default: the backend's)",
    )
    parser.add_argument("--threads", type=THREADS, help="CPU threads (default: one per core)")
    address.add_arguments(parser, port=8200)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    try:
        from gce.app.web.policy.application import policy_application
        from gce.app.web.server import listen, run
    except ImportError as error:
        raise MissingExtra((error.name or "starlette").split(".")[0], "web") from error
    where = address.address_of(arguments)
    folder: Path | None = arguments.adapters
    if folder is not None and not folder.is_dir():
        raise BadInput(f"expected a folder of adapters, found none at {folder}")
    learned = find_adapter(arguments.adapter) if arguments.adapter else None
    shape = shape_of(learned) | {name: value for name in SHAPE if (value := vars(arguments)[name])}
    settings = TrainSettings(
        model=ModelSettings(name=arguments.model, device=arguments.device, threads=arguments.threads),
        lora=LoraSettings(**shape),
    )
    with listen(where) as listening:
        app = policy_application(
            partial(_load, settings, learned), where, adapters=folder, most=arguments.adapter_mib * 2**20
        )
        run(app, listening, where, f"serving {arguments.model}")
    return 0


def _load(settings: TrainSettings, learned: ModelState | None) -> Policy:
    name = settings.model.name
    model = find_model(settings, find_task("scheduling"))
    if not isinstance(model, Sampler) or not isinstance(model, Adaptable):
        raise BadInput(f"model {name} takes no adapter: gce models lists those that can be trained")
    policy = Policy(model, name)
    if learned is not None:
        policy.load(ADAPTER, learned)
    return policy
