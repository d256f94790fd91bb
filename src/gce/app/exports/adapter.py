"""Export a trained adapter for mlx-lm or PEFT, or merged into its base model."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from gce.app.wiring.comparison import compare_export
from gce.app.wiring.files import whole_folder
from gce.app.wiring.formats import MLX_FILES, LowRank, check_fits, peft_files, read_adapter, write_merged
from gce.app.wiring.models import HF, model_directory
from gce.app.wiring.runs import Checkpoint
from gce.errors import BadInput, ModelError

__all__ = ["FORMATS", "Exported", "export_adapter"]

FORMATS = ("mlx", "peft", "merged")


@frozen(eq=False)
class Exported:
    """The result of an export."""

    adapter: LowRank
    base: Path | None
    """The base model's directory; None if it was not needed."""
    load: str
    """How to load the export, in words."""
    comparison: str
    """The measured difference between the model here and the export, in words, or why it was not measured."""


def export_adapter(
    checkpoint: Checkpoint, form: str, out: Path, *, base: Path | None = None, compare: bool = True
) -> Exported:
    """Write a checkpoint in one of `FORMATS` to the new or empty folder `out`.

    `base` is the directory of the base model; by default the one that the checkpoint's run names. With `compare`, the
    export is loaded as its users do, and compared with the model here.

    Raises:
        BadInput: the checkpoint holds no LoRA adapter, or its base model is missing or does not match.
        OtherModel: the export was compared, and is another model; nothing is written.
    """
    adapter = read_adapter(checkpoint.files, checkpoint.name)
    found = None if form == "mlx" else _fitting_base(checkpoint, base, adapter)
    with whole_folder(out) as folder:
        if form == "merged":
            assert found is not None
            write_merged(found, adapter, folder)
        else:
            ours = {name: checkpoint.files[name] for name in MLX_FILES}
            for name, content in (ours if found is None else peft_files(adapter, str(found))).items():
                (folder / name).write_bytes(content)
        if not compare:
            comparison = "not compared"
        elif found is None:
            comparison = "not compared: these are the checkpoint's own files"
        else:
            on_torch = (checkpoint.base or "").startswith(HF)
            comparison = compare_export(folder, found, adapter, merged=form == "merged", on_torch=on_torch)
    return Exported(adapter, found, _how_to_load(form, out, found), comparison)


def _fitting_base(checkpoint: Checkpoint, given: Path | None, adapter: LowRank) -> Path:
    """Return the base model's directory; BadInput if there is none, or the adapter does not fit it."""
    if given is None and checkpoint.base is None:
        raise BadInput(f"{checkpoint.name} is not in a run directory that names its base", hint="give {model} DIR")
    base = given or _directory(str(checkpoint.base))
    if not (base / "config.json").is_file():
        raise BadInput(f"expected a model's directory in the Hugging Face layout, found no config.json in {base}")
    check_fits(base, adapter, by_mlx=not (checkpoint.base or "").startswith(HF))
    return base.resolve()


def _directory(name: str) -> Path:
    try:
        base = Path(model_directory(name))
    except ModelError:  # Such a name is neither a directory nor one that a hub may have.
        base = Path(name)
    if not base.is_dir():
        raise BadInput(
            f"the run's base {name!r} is no directory here", hint="give {model} DIR with its files, or {to} mlx"
        )
    return base


def _how_to_load(form: str, out: Path, base: Path | None) -> str:
    path = repr(str(out))
    match form:
        case "mlx":
            return f"load it with mlx_lm.load(BASE, adapter_path={path})"
        case "peft":
            loaded = f"AutoModelForCausalLM.from_pretrained({str(base)!r})"
            return f"load it with peft.PeftModel.from_pretrained({loaded}, {path})"
    return f"load it with mlx_lm.load({path}) or transformers.AutoModelForCausalLM.from_pretrained({path})"
