"""Equal scores in an exported NMS-free graph: the earlier anchor, then the earlier class, comes first, as in the program itself.

usage: check_ties.py YOLO MODEL.safetensors (in a folder of its own; see with_runtime.sh)
The class branches lose their weights and keep chosen biases, and both branches of the head become the same. So the graph without
selection gives boxes and scores from which numpy makes the rows that are wanted, by a stable sort. Exits with 1 on a difference.
"""
import json
import re
import struct
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort

SIZE, K = 64, 30
yolo, source = sys.argv[1:3]
failures = 0


def check(name, ok, detail=""):
    global failures
    failures += not ok
    print(f"{'ok' if ok else 'FAILED'}: {name} {detail}", flush=True)


def tie(path, biases):
    """A copy of the model whose class scores are the sigmoid of biases[level], everywhere on a level."""
    raw = bytearray(open(source, "rb").read())
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:start])
    span = {k: slice(start + v["data_offsets"][0], start + v["data_offsets"][1]) for k, v in header.items() if k != "__metadata__"}
    for name, at in span.items():
        last = re.search(r"\.cv3\.(\d)\.2\.(weight|bias)$", name)
        if last:
            assert header[name]["dtype"] == "F16"
            raw[at] = bytes(at.stop - at.start) if last[2] == "weight" else np.array(biases[int(last[1])], "<f2").tobytes()
        if re.search(r"\.cv2\.\d\.2\.bias$", name):
            raw[at] = np.array([1, 1.25, 1.5, 1.75], "<f2").tobytes()  # boxes with an area
    for name, at in span.items():
        if "one2one_" in name:
            raw[at] = raw[span[name.replace("one2one_", "")]]
    open(path, "wb").write(raw)


def run(*arguments):
    subprocess.run([yolo, *arguments], check=True, stdout=subprocess.DEVNULL)


def export(name, *arguments):
    run("export", f"model={name}.safetensors", "format=onnx", f"imgsz={SIZE}", *arguments)
    return f"{name}.onnx"


def infer(path, x):
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"images": x})[0]


def wanted(decoded):
    boxes, scores = decoded[:4].T, decoded[4:].T
    anchors = np.argsort(-scores.max(1), kind="stable")[:K]
    flat = scores[anchors].reshape(-1)
    best = np.argsort(-flat, kind="stable")[:K]
    chosen = boxes[anchors[best // scores.shape[1]]]
    half = chosen[:, 2:] / 2
    columns = [chosen[:, :2] - half, chosen[:, :2] + half, flat[best, None], (best % scores.shape[1])[:, None]]
    return np.concatenate(columns, 1)


def check_types(path):
    """Chosen indices stay int64 all the way to the gathers: 32 or 16 bits are where converters went wrong."""
    graph = onnx.shape_inference.infer_shapes(onnx.load(path), strict_mode=True).graph
    types = {v.name: v.type.tensor_type.elem_type for v in graph.value_info} | {t.name: t.data_type for t in graph.initializer}
    chosen = [n.output[1] for n in graph.node if n.op_type == "TopK"]
    used = [n.input[1] for n in graph.node if n.op_type == "GatherElements"]
    check("two selections, indices int64", len(chosen) == 2 and {types[n] for n in chosen} == {onnx.TensorProto.INT64})
    check("gathers by int64", len(used) == 3 and {types[n] for n in used} == {onnx.TensorProto.INT64})


def check_program(name, rows, grey):
    """The program's own rows of the same grey picture, which it clips."""
    header = struct.pack("<2sIIIIiiHHIIiiII", b"BM", 54 + 3 * SIZE * SIZE, 0, 54, 40, SIZE, SIZE, 1, 24, 0, 0, 0, 0, 0, 0)
    open("grey.bmp", "wb").write(header + bytes([grey]) * (3 * SIZE * SIZE))
    run("predict", f"model={name}.safetensors", "source=grey.bmp", f"imgsz={SIZE}", "nms=False", f"max_det={K}", "conf=0.01",
        "save_txt=True", "save=False", f"name={name}", "device=cpu")
    ours = np.loadtxt(f"runs/detect/{name}/labels/grey.txt").reshape(-1, 5)
    boxes = np.clip(rows[:, :4], 0, SIZE)
    wide = np.concatenate([rows[:, 5:], (boxes[:, :2] + boxes[:, 2:]) / 2 / SIZE, (boxes[:, 2:] - boxes[:, :2]) / SIZE], 1)
    same = ours.shape == wide.shape and np.abs(ours - wide).max() < 1e-4
    check(f"{name}: the program's rows in the same order", same, f"{len(ours)} rows")


GREY = 100
x = np.full((1, 3, SIZE, SIZE), GREY / 255, np.float32)
for name, biases in {
    "all-equal": [[0, 0, 0]] * 3,
    "equal-in-levels": [[-1, -1, -2], [1, 0, 1], [-1, -3, -1]],
}.items():
    tie(f"{name}.safetensors", biases)
    decoded = infer(export(name), x)[0]
    rows = wanted(decoded)
    path = export(name, "nms=False", f"max_det={K}")
    found = infer(path, x)[0]
    check_types(path)
    check(f"{name}: scores are equal", len(np.unique(decoded[4:])) == len(np.unique(biases)))
    boxes_differ = len(np.unique(decoded[:4].round(3), axis=1)) > 1
    same = boxes_differ and found.shape == rows.shape and (found[:, 5] == rows[:, 5]).all() and np.abs(found - rows).max() < 1e-3
    check(f"{name}: rows in the order of anchors and classes", same, f"shape {found.shape}")
    check_program(name, rows, GREY)
sys.exit(1 if failures else 0)
