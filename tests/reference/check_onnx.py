"""Checks an exported .onnx with onnx.checker, ONNX Runtime and the reference package (a black box).

usage: check_onnx.py WEIGHTS.pt EXPORT.onnx [batch=N] [sizes=H,W;…] [tolerance=1e-4] [pictures=FOLDER] [predict]
The expected output is the reference's own forward pass of WEIGHTS.pt on the same tensor. Boxes are compared relative to the
image size, scores absolutely; of NMS-free rows those with a score above 0.01 (below, equal scores come in any order).
`predict`: also run the file through the reference's predictor. Exits with 1 on a difference.
"""
import ast
import os
import sys
import tempfile

os.environ.setdefault("YOLO_OFFLINE", "1")
os.environ.setdefault("YOLO_CONFIG_DIR", tempfile.mkdtemp(prefix="onelook-reference-"))
import cv2  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime as ort  # noqa: E402
import torch  # noqa: E402
from ultralytics import YOLO  # noqa: E402

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
failures = 0


def check(name, ok, detail=""):
    global failures
    failures += not ok
    print(f"{'ok' if ok else 'FAILED'}: {name} {detail}", flush=True)


def pictures_of(folder, n, h, w):
    """The first pictures of a folder, stretched to the size; smooth blobs without a folder."""
    if folder:
        paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        planes = [cv2.resize(cv2.imread(paths[i % len(paths)]), (w, h))[..., ::-1].transpose(2, 0, 1) for i in range(n)]
        return np.ascontiguousarray(np.stack(planes).astype(np.float32) / 255)
    y, x = np.mgrid[0:h, 0:w].astype(np.float32) / 64
    planes = [np.sin(x * (1.1 + 0.3 * c) + i) * np.cos(y * (0.9 + 0.2 * c) - i) * 0.5 + 0.5 for i in range(n) for c in range(3)]
    return np.stack(planes).reshape(n, 3, h, w).astype(np.float32)


def reference(model, x, end2end):
    head = model.model[-1]
    head.end2end = end2end
    with torch.no_grad():
        y = model(torch.from_numpy(x))
    return (y[0] if isinstance(y, (tuple, list)) else y).numpy()


def main():
    weights, path = sys.argv[1:3]
    options = dict(a.split("=", 1) for a in sys.argv[3:] if "=" in a)
    tolerance = float(options.get("tolerance", 1e-4))
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    check("onnx.checker", True, f"(opset {proto.opset_import[0].version}, IR {proto.ir_version}, {len(proto.graph.node)} nodes)")
    meta = {p.key: p.value for p in proto.metadata_props}
    wanted = "description author date version license docs stride task head batch imgsz names args channels end2end".split()
    check("metadata keys", [k for k in wanted if k not in meta] == [])
    args = ast.literal_eval(meta["args"])
    end2end, nms = ast.literal_eval(meta["end2end"]), args.get("nms") is True
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    node = session.get_inputs()[0]
    check("input and output names", node.name == "images" and [o.name for o in session.get_outputs()] == ["output0"],
          f"{node.shape} -> {session.get_outputs()[0].shape}")
    model = YOLO(weights).model.float().eval()
    h, w = ast.literal_eval(meta["imgsz"])
    sizes = [tuple(int(v) for v in s.split(",")) for s in options.get("sizes", f"{h},{w}").split(";")]
    for size in sizes:
        x = pictures_of(options.get("pictures"), int(options.get("batch", meta["batch"])), *size)
        y = session.run(None, {"images": x})[0]
        if nms:
            compare_nms(model, x, y, tolerance)
            continue
        z = reference(model, x, end2end)
        scale = np.full(z.shape[1:], 1.0, np.float32)
        if end2end:
            scale[:, :4] = max(size)
            shown = (y[..., 4] > 0.01) & (z[..., 4] > 0.01)
            check("number of confident rows", ((y[..., 4] > 0.01) == (z[..., 4] > 0.01)).all(), str(shown.sum(1)))
            y, z = y * shown[..., None], z * shown[..., None]
        else:
            scale[:4] = max(size)
        worst = float(np.abs((y - z) / scale).max()) if y.shape == z.shape else np.inf
        check(f"equal to the reference's forward pass at {size}", worst <= tolerance, f"shape {y.shape}, worst {worst:.2e}")
    if "predict" in sys.argv:
        image = (pictures_of(options.get("pictures"), 1, h, w)[0].transpose(1, 2, 0)[..., ::-1] * 255).round().astype(np.uint8)
        kwargs = {"conf": 0.05, "verbose": False, "device": "cpu", "imgsz": (h, w)}
        native = YOLO(weights).predict(image, **kwargs, **({"nms": False} if end2end else {}))[0].boxes.data.numpy()
        ours = YOLO(path, task="detect").predict(image, **kwargs)[0].boxes.data.numpy()
        same = native.shape == ours.shape and (native.size == 0 or np.abs(native - ours).max() < 0.05)
        check("predict through the reference", nms or same, f"{ours.shape[0]} boxes, native {native.shape[0]}")
    sys.exit(1 if failures else 0)


def compare_nms(model, x, y, tolerance):
    """The expected rows from the reference's raw output by plain suppression in numpy."""
    raw = reference(model, x, False)
    for i in range(x.shape[0]):
        boxes, scores = raw[i, :4].T, raw[i, 4:].T
        best, cls = scores.max(1), scores.argmax(1)
        keep = best > 0.25
        boxes, best, cls = boxes[keep], best[keep], cls[keep]
        xyxy = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
        moved, order, rows = xyxy + cls[:, None] * 7680.0, np.argsort(-best, kind="stable"), []
        while order.size:
            k = order[0]
            rows.append([*xyxy[k], best[k], cls[k]])
            lo, hi = np.maximum(moved[k, :2], moved[order, :2]), np.minimum(moved[k, 2:], moved[order, 2:])
            inter = np.prod(np.clip(hi - lo, 0, None), 1)
            area = np.prod(moved[:, 2:] - moved[:, :2], 1)
            order = order[~(inter / (area[k] + area[order] - inter) > 0.7)]
            order = order[order != k]
        expected = np.zeros_like(y[i])
        rows = np.array(rows[: len(expected)], np.float32).reshape(-1, 6)
        expected[: len(rows)] = rows
        worst = float(np.abs((y[i] - expected) / np.array([x.shape[3]] * 4 + [1, 1])).max())
        check(f"rows of picture {i} after suppression", worst <= tolerance, f"{len(rows)} rows, worst {worst:.2e}")


main()
