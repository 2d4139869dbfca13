"""Checks .pt files of ours with the reference package (used as a black box, never read).

usage: check_checkpoint.py ORIGINAL.pt OURS.pt DATA_FOLDER [OURS_RESUMABLE.pt]
OURS.pt must hold the weights of ORIGINAL.pt. DATA_FOLDER has images/train, images/val and labels. Prints one line a check and
exits with 1 when one fails.
"""
import os
import shutil
import sys
import tempfile
from pathlib import Path

work = Path(tempfile.mkdtemp(prefix="onelook-reference-"))
os.environ.setdefault("YOLO_OFFLINE", "1")
os.environ.setdefault("YOLO_CONFIG_DIR", str(work / "config"))
import numpy as np  # noqa: E402
import torch  # noqa: E402
from ultralytics import YOLO  # noqa: E402

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
failures = 0


def check(name, ok, detail=""):
    global failures
    failures += not ok
    print(f"{'ok' if ok else 'FAILED'}: {name} {detail}", flush=True)


def rows(path, picture, **arguments):
    result = YOLO(path).predict(picture, imgsz=160, conf=0.01, verbose=False, device="cpu", **arguments)[0]
    return result.boxes.data.numpy()


def data_yaml(folder, nc):
    copy = work / "data"
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    text = f"path: {copy}\ntrain: images/train\nval: images/val\nnames:\n" + "".join(f"  {i}: c{i}\n" for i in range(nc))
    (work / "data.yaml").write_text(text)
    return str(work / "data.yaml")


def train(model, **arguments):
    model.train(imgsz=64, workers=0, plots=False, verbose=False, device="cpu", **arguments)
    return model.trainer


def main():
    original, ours, folder = sys.argv[1:4]
    resumable = sys.argv[4] if len(sys.argv) > 4 else None
    a, b = YOLO(original).model.float().state_dict(), YOLO(ours).model.float().state_dict()
    check("state dict names and order", list(a) == list(b), f"({len(b)} tensors)")
    check("state dict values", all(torch.equal(a[k], b[k]) for k in a if k in b))
    check("model description", YOLO(ours).model.yaml["backbone"] == YOLO(original).model.yaml["backbone"])
    check("class names", YOLO(ours).names == YOLO(original).names)
    n_modules = [sum(1 for _ in YOLO(p).model.modules()) for p in (original, ours)]
    check("number of modules", n_modules[0] == n_modules[1], str(n_modules))
    torch_load = torch.load(ours, map_location="cpu", weights_only=False)
    left = [k for k in ("license", "docs", "git", "author") if k in torch_load]
    check("no foreign entries", not left, str(left))
    try:
        from ultralytics.nn.tasks import torch_safe_load

        ck, _ = torch_safe_load(ours, safe_only=True)
        check("restricted load", isinstance(ck["model"], torch.nn.Module))
        if resumable:
            ck, _ = torch_safe_load(resumable, safe_only=True)
            check("restricted load of the resumable file", isinstance(ck["ema"], torch.nn.Module))
    except ImportError:
        print("skipped: restricted load")
    picture = (np.arange(120 * 160 * 3) * 2654435761 % 251).astype(np.uint8).reshape(120, 160, 3)
    pictures = [picture, *sorted(str(p) for p in (Path(folder) / "images/val").glob("*.jpg"))[:2]]
    for name, arguments in (("one-to-many head", {}), ("one-to-one head", {"nms": False})):
        pairs = [(rows(original, p, **arguments), rows(ours, p, **arguments)) for p in pictures]
        same = all(x.shape == y.shape and np.array_equal(x, y) for x, y in pairs)
        check(f"predict with the {name}", same, f"({[len(y) for _, y in pairs]} boxes)")
    yaml = data_yaml(folder, YOLO(ours).model.nc)
    trainer = train(YOLO(ours), data=yaml, epochs=1, batch=4, nbs=4, project=str(work / "runs"), name="one")
    check("train one epoch from it", (Path(trainer.save_dir) / "weights/last.pt").exists())
    if resumable:
        target = work / "resume" / "weights"
        target.mkdir(parents=True)
        shutil.copy(resumable, target / "last.pt")
        ck = torch.load(resumable, map_location="cpu", weights_only=False)
        ck_epochs = ck["train_args"]["epochs"]
        trainer = train(YOLO(target / "last.pt"), data=yaml, resume=True)
        check("resume", trainer.start_epoch == ck["epoch"] + 1 and trainer.epochs == ck_epochs, f"(epoch {trainer.start_epoch} of {trainer.epochs})")
    shutil.rmtree(work, ignore_errors=True)
    sys.exit(1 if failures else 0)


main()
