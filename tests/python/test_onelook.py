"""The Python layer on a drawn data set. Exit code 77: numpy is missing."""

import gc
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

import onelook
from onelook import YOLO, OnelookError


def raises(kind, text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert text in str(error), str(error)
        return
    raise AssertionError(f"no {kind.__name__} with {text!r}")


def boxes_have_all_forms():
    boxes = onelook.Boxes([[10, 20, 30, 60, 0.5, 2]], (100, 200))
    assert boxes.xywh.tolist() == [[20, 40, 20, 40]]
    assert np.allclose(boxes.xyxyn, [[0.05, 0.2, 0.15, 0.6]]) and np.allclose(boxes.xywhn, [[0.1, 0.4, 0.1, 0.4]])
    assert boxes.conf.tolist() == [0.5] and boxes.cls.tolist() == [2] and len(boxes) == 1 and boxes.shape == (1, 6)
    assert len(onelook.Boxes(np.zeros((0, 6)), (1, 1))) == 0


def errors_are_exceptions():
    raises(OnelookError, "does not exist", YOLO, "absent.pt", verbose=False)
    raises(FileNotFoundError, "does not exist", YOLO, "absent.pt", verbose=False)
    model = YOLO("yolo26n.yaml", verbose=False)
    raises(ValueError, "between 0.0 and 1.0", model.predict, "x.jpg", conf=2)
    raises(ValueError, "Similar arguments", model.predict, "x.jpg", imgs=2)
    raises(FileNotFoundError, "x.jpg", model.predict, "x.jpg")
    raises(ValueError, "uint8", model.predict, np.zeros((4, 4, 3)))
    raises(TypeError, "numpy arrays", model.predict, ["a.jpg", "b.jpg"])
    raises(ValueError, "NUL", YOLO, "a\0b.pt")
    raises(ValueError, "NUL", model.predict, "x\0.jpg")


def devices_are_told():
    assert onelook.is_available("cpu") and onelook.is_available(" CPU ") and onelook.why_not("cpu") == ""
    assert onelook.is_available() == any(d.is_usable for d in onelook.devices())
    assert "is not a device" in onelook.why_not("nonsense")


def a_context_outlives_its_call():
    """The garbage collector may come at any time: what a call works with is there until it returns."""
    from onelook import _library
    devices = sys.modules["onelook.devices"]
    gc.collect()
    gone, destroy, real = [], _library.Context.__del__, devices.lib

    def collected_meanwhile(name):
        def call(*arguments):
            gc.collect()
            assert not gone, name
            return getattr(real, name)(*arguments)
        return call

    class Library:
        def __getattr__(self, name):
            return collected_meanwhile(name)

    _library.Context.__del__ = lambda self: (gone.append(True), destroy(self))
    devices.lib = Library()
    try:
        for ask in (onelook.device_count, onelook.devices, onelook.is_available, onelook.why_not):
            ask()
            gc.collect()
            gone.clear()
    finally:
        _library.Context.__del__, devices.lib = destroy, real


def made_up_devices_are_described(doubles):
    """In a process of its own, whose loader finds the stand-in for AMD's runtime."""
    environment = dict(os.environ, LD_LIBRARY_PATH=doubles, HIP_DOUBLE_DEVICES="gfx942i,gfx942", HIP_DOUBLE_FREE="3,9")
    words = """import onelook
first, second = onelook.devices()
assert onelook.device_count() == 2
assert first == ("hip:1", "AMD double 1", "AMD", "gfx942", "HIP runtime 6.4, driver 6.4", 16 << 30, 9 << 30, False, first.is_usable)
assert second.name == "hip:0" and second.is_integrated and second.free_bytes == 3 << 30
assert onelook.is_available(0) == onelook.is_available("hip:1") == onelook.is_available("cuda:0") == first.is_usable
assert not onelook.is_available("hip:2") and "2 GPUs" in onelook.why_not([0, 7])
import gc
import os
os.environ["HIP_DOUBLE_REFUSE"] = "hipSetDevice@1:999"
assert onelook.is_available("hip:0") == second.is_usable and not onelook.is_available("hip:1")
assert not first.is_usable or "hip:1 does not answer" in onelook.why_not(0)
"""
    for name in ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        environment.pop(name, None)
    subprocess.run([sys.executable, "-c", words], env=environment, check=True)


def a_model_goes_through_all_modes():
    from onelook._library import Context, lib
    context = Context(False)
    context.check(lib.ol_shapes_write(context.handle, b"shapes", 8, 4, 64, 0))
    model = YOLO("yolo26n.yaml", verbose=False)
    assert model.task == "detect" and len(model.names) == 80 and model.n_parameters > 2_000_000

    run = model.train(data="shapes/data.yaml", epochs=1, imgsz=64, batch=4, plots=False, verbose=False, name="run")
    assert run["epochs"] == 1 and os.path.exists(run["best"]) and model.names[0] == "circle", run

    metrics = model.val(data="shapes/data.yaml", imgsz=64, plots=False, verbose=False)
    assert 0 <= metrics.box.map50 <= 1 and metrics.n_images == 4 and set(metrics.speed) >= {"inference"}
    assert metrics.results_dict["metrics/mAP50(B)"] == metrics.box.map50

    results = model("shapes/images/val", imgsz=64, conf=0.001, verbose=False)
    assert len(results) == 4 and all(r.boxes.data.shape[1] == 6 for r in results)
    r = results[0]
    assert r.orig_img.shape == (*r.orig_shape, 3) and r.names[0] == "circle" and r.speed["inference"] > 0
    assert r.save_dir is None and os.path.isabs(r.path)

    array = model.predict(r.orig_img, imgsz=64, conf=0.001, verbose=False)[0]
    assert np.array_equal(array.boxes.data, r.boxes.data), "a picture gives the same boxes from memory and from its file"
    many = model.predict([r.orig_img, r.orig_img[:40]], imgsz=64, conf=0.001, batch=2, verbose=False)
    assert len(many) == 2 and many[1].orig_shape == (40, r.orig_shape[1])

    odd = os.fsdecode(b"a \xff.png")  # a name that is not UTF-8
    with open("shapes/images/val/000.png", "rb") as source, open(odd, "wb") as copy:
        copy.write(source.read())
    assert model(odd, imgsz=64, verbose=False)[0].path.endswith(odd)

    path = model.export(format="onnx", imgsz=64, verbose=False)
    assert path.endswith("best.onnx") and os.path.getsize(path) > 1_000_000


if __name__ == "__main__":
    os.environ.setdefault("ONELOOK_CONFIG_DIR", tempfile.mkdtemp())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["XDG_CACHE_HOME"] = folder
        boxes_have_all_forms()
        errors_are_exceptions()
        devices_are_told()
        a_context_outlives_its_call()
        if os.environ.get("ONELOOK_DOUBLES"):
            made_up_devices_are_described(os.environ["ONELOOK_DOUBLES"])
        a_model_goes_through_all_modes()
    print("the Python layer: fine, version", onelook.version())
