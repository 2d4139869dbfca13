"""Exports read back in several run times: the same rows, in pixels of the input. usage: check_runtimes.py YOLO MODEL.safetensors

ONNX Runtime against OpenVINO and against the plain interpreter of the onnx package, each where it is installed; every kind of export,
two pictures, a size that is not square. Skipped (77) without a second run time. Exits with 1 on a difference.
"""
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort

yolo, source = sys.argv[1:3]
HEIGHT, WIDTH = 64, 96
failures = 0


def by_interpreter(path):
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class GatherElements(OpRun):  # its own takes 64 rows at most
        op_domain = ""

        def _run(self, data, indices, axis=0):
            return (np.take_along_axis(data, indices, axis),)

    evaluator = ReferenceEvaluator(onnx.load(path), new_ops=[GatherElements])
    return lambda x: evaluator.run(None, {"images": x})[0]


def by_openvino(path):
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    return lambda x: compiled([x])[0]


def installed(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode == 0


others = {name: make for name, module, make in (("onnx.reference", "onnx.reference", by_interpreter), ("openvino", "openvino", by_openvino))
          if installed(module)}
if not others:
    print("skipped: there is no second run time")
    sys.exit(77)
y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32) / 16
pictures = np.stack([np.sin(x * (1.1 + 0.3 * c) + i) * np.cos(y * (0.9 + 0.2 * c) - i) * 0.5 + 0.5 for i in range(2) for c in range(3)])
pictures = pictures.reshape(2, 3, HEIGHT, WIDTH).astype(np.float32)
for name, arguments in {
    "plain": ["batch=2"],
    "rows": ["batch=2", "nms=False", "max_det=40"],
    "suppressed": ["batch=2", "nms=True", "max_det=40", "conf=0.3"],
    "dynamic": ["dynamic=True"],
    "opset 11": ["batch=2", "opset=11", "nms=False", "max_det=40"],
}.items():
    command = [yolo, "export", f"model={source}", "format=onnx", f"imgsz=[{HEIGHT},{WIDTH}]", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    path = source.replace(".safetensors", ".onnx")
    wanted = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"images": pictures})[0]
    boxes = wanted[:, :4] if wanted.shape[2] != 6 else wanted[..., :4]
    sensible = np.abs(boxes).max() > 10  # in pixels, not in shares of the picture
    for other, make in others.items():
        found = make(path)(pictures)
        worst = float(np.abs(found - wanted).max()) if found.shape == wanted.shape else np.inf
        ok = sensible and worst < 1e-3
        failures += not ok
        print(f"{'ok' if ok else 'FAILED'}: {name} in {other}: {found.shape}, worst {worst:.1e}", flush=True)
sys.exit(1 if failures else 0)
