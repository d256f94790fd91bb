"""`gce export`: what a run learned, as files for other programs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from gce.adapters.adapter_formats import MLX_FILES, LowRank, peft_files, read_adapter
from gce.adapters.checkpoint_reader import read_committed, run_of
from gce.adapters.input_files import read_input
from gce.adapters.run_reader import RunReader
from gce.adapters.whole_folder import whole_folder
from gce.app.evaluation import stored_shares
from gce.app.models import model_directory
from gce.app.options import PATH, Choice
from gce.app.terminal import put, put_json
from gce.domain.types import Interval
from gce.errors import BadInput, MissingExtra

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Write what a run learned as files that other programs read. Works while the run goes on, and leaves it as it is.

formats:
  mlx      the adapter, for mlx_lm.load(BASE, adapter_path=DIR) and mlx_lm.generate --adapter-path
  peft     the adapter, for PEFT and what builds on it
  merged   a model of its own in the Hugging Face layout: the base's files with the adapter added to the weights, in
           float32, rounded once to the base's own type. In float32 its logits are those of base and adapter within
           1e-4; with weights of fewer bits, within what rounding them costs
"""
EXAMPLES = """\
examples:
  gce export runs/1 --to peft                          runs/1/export/peft
  gce export runs/1 --to merged --checkpoint best      the checkpoint that was best on dev problems
  gce export runs/1 --to merged --model ./my-model     where the run's base is a hub name, or was moved
  gce export runs/1/checkpoints/iteration-0003 --to mlx --out adapter
"""
FORMATS = Choice(("mlx", "peft", "merged"))
WHICH = Choice(("last", "best"))
MOST_OF_AN_ADAPTER = 16 * 2**30
"""Bytes of each of its files."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce export`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=PATH, metavar="RUN", help="a run directory, or one of its checkpoints")
    parser.add_argument("--to", type=FORMATS, choices=FORMATS.names, required=True, help="as above")
    parser.add_argument("--out", type=PATH, metavar="DIR", help="a new or empty folder (default: RUN/export/FORMAT)")
    parser.add_argument("--checkpoint", type=WHICH, choices=WHICH.names, help="which of the run's (default last)")
    parser.add_argument("--model", type=PATH, metavar="DIR", help="the base's directory (default: as the run says)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    source = _source(arguments.run, arguments.checkpoint)
    adapter = read_adapter(source.files, source.name)
    out = arguments.out or (source.run or arguments.run) / "export" / arguments.to
    base = None if arguments.to == "mlx" else _fitting_base(source, arguments.model, adapter)
    with whole_folder(out) as folder:
        if arguments.to == "merged":
            assert base is not None
            from gce.adapters.base_weights import write_merged

            write_merged(base, adapter, folder)
        else:
            ours = {name: source.files[name] for name in MLX_FILES}
            for name, content in (ours if base is None else peft_files(adapter, str(base))).items():
                (folder / name).write_bytes(content)
    load = _how_to_load(arguments.to, out, base)
    if arguments.json:
        found = {"path": str(out), "format": arguments.to, "checkpoint": source.name, "load": load}
        put_json(found | {"base": None if base is None else str(base)})
    else:
        put(f"{out}: {source.name}, {len(adapter.pairs)} linears of rank {adapter.rank}", load)
    return 0


@frozen(eq=False)
class _Source:
    """A checkpoint and where it comes from."""

    name: str
    files: Mapping[str, bytes]
    run: Path | None
    """None for a checkpoint outside of any run."""


def _source(path: Path, which: str | None) -> _Source:
    if (path / "run.sqlite").is_file():
        iteration, files = read_committed(path, _best(path) if which == "best" else None)
        return _Source(f"iteration {iteration} of {path}", files, path)
    if not (path / "adapters.safetensors").is_file():
        raise BadInput(f"expected a run directory or a checkpoint, found no run.sqlite in {path}")
    if which is not None:
        raise BadInput(f"{path} is a checkpoint itself: leave out --checkpoint, or give its run")
    if (found := run_of(path)) is not None:
        return _Source(str(path), read_committed(*found)[1], found[0])
    return _Source(str(path), {name: read_input(path / name, MOST_OF_AN_ADAPTER) for name in MLX_FILES}, None)


def _best(path: Path) -> int:
    """The iteration with the best mean accuracy on dev problems, the earlier one where equal: as the loop has it."""
    with RunReader(path) as reader:
        records = [record for record in reader.read("iterations") if record.get("dev")]
    looks: dict[int, Mapping[str, Interval]] = {each["iteration"]: stored_shares(each["dev"]) for each in records}
    if not looks:
        raise BadInput(f"{path} has looked at no dev problems, so no checkpoint is best: leave out --checkpoint")
    return max(looks, key=lambda number: sum(each.share for each in looks[number].values()) / len(looks[number]))


def _fitting_base(source: _Source, given: Path | None, adapter: LowRank) -> Path:
    """The base's directory; BadInput where there is none, or the adapter is not one of this base."""
    if given is None and source.run is None:
        raise BadInput(f"{source.name} lies in no run that would name its base: give --model DIR")
    base = given or _base_of(source.run or Path())
    if not (base / "config.json").is_file():
        raise BadInput(f"expected a model's directory in the Hugging Face layout, found no config.json in {base}")
    try:
        from gce.adapters.base_weights import check_fits
    except ImportError as error:
        raise MissingExtra(error.name or "mlx", "mlx") from error
    check_fits(base, adapter)
    return base.resolve()


def _base_of(path: Path) -> Path:
    with RunReader(path) as reader:
        name = str(reader.settings["model"])
    base = Path(model_directory(name))
    if not base.is_dir():
        raise BadInput(f"the run's base {name!r} is no directory here: give --model DIR with its files, or --to mlx")
    return base


def _how_to_load(form: str, out: Path, base: Path | None) -> str:
    path = repr(str(out))
    match form:
        case "mlx":
            return f"load it with mlx_lm.load(BASE, adapter_path={path})"
        case "peft":
            loaded = f"AutoModelForCausalLM.from_pretrained({str(base)!r})"
            return f"load it with peft.PeftModel.from_pretrained({loaded}, {path})"
    return (
        f"load it with mlx_lm.load({path}) or transformers.AutoModelForCausalLM.from_pretrained({path}); logits are "
        "those of base and adapter within 1e-4 where the weights are float32, within their rounding elsewhere"
    )
