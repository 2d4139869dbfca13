"""What predict and val give back: numpy arrays, no tensors."""

import json

import numpy as np

from ._library import from_c


class Boxes:
    """Boxes of one picture. `data` is (n, 6) float32: x1, y1, x2, y2 in pixels, confidence, class id."""

    def __init__(self, data, orig_shape):
        self.data = np.asarray(data, dtype=np.float32).reshape(-1, 6)
        self.orig_shape = tuple(orig_shape)  # (height, width)

    @property
    def xyxy(self):
        return self.data[:, :4]

    @property
    def conf(self):
        return self.data[:, 4]

    @property
    def cls(self):
        return self.data[:, 5]

    @property
    def xywh(self):
        """Centre and size in pixels."""
        corners = self.xyxy
        return np.concatenate([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], axis=1)

    def _scale(self):
        height, width = self.orig_shape
        return np.array([width, height, width, height], dtype=np.float32)

    @property
    def xyxyn(self):
        return self.xyxy / self._scale()

    @property
    def xywhn(self):
        return self.xywh / self._scale()

    @property
    def shape(self):
        return self.data.shape

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return Boxes(np.atleast_2d(self.data[index]), self.orig_shape)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def numpy(self):
        return self

    def cpu(self):
        return self

    def __repr__(self):
        return f"Boxes({len(self)} of a picture of {self.orig_shape[0]}x{self.orig_shape[1]})\n{self.data}"


class Results:
    """One picture: `boxes`, `orig_img` (height, width, 3) B,G,R, `orig_shape`, `names`, `path`, `speed`, `save_dir`."""

    def __init__(self, boxes, orig_img, names, path, speed, save_dir=None):
        self.orig_img = orig_img
        self.orig_shape = tuple(orig_img.shape[:2])
        self.boxes = Boxes(boxes, self.orig_shape)
        self.names = names
        self.path = path
        self.speed = speed
        self.save_dir = save_dir

    def __len__(self):
        return len(self.boxes)

    def __getitem__(self, index):
        return Results(self.boxes[index].data, self.orig_img, self.names, self.path, self.speed, self.save_dir)

    def summary(self, normalize=False, decimals=5):
        rows = []
        for (x1, y1, x2, y2), row in zip(self.boxes.xyxyn if normalize else self.boxes.xyxy, self.boxes.data):
            corners = {k: round(float(v), decimals) for k, v in zip(("x1", "y1", "x2", "y2"), (x1, y1, x2, y2))}
            rows.append({"name": self.names[int(row[5])], "class": int(row[5]), "confidence": round(float(row[4]), decimals),
                         "box": corners})
        return rows

    def to_json(self, normalize=False, decimals=5):
        return json.dumps(self.summary(normalize, decimals), separators=(",", ":"))

    def verbose(self):
        """"4 persons, 1 bus, " or "(no detections), "."""
        if not len(self):
            return "(no detections), "
        ids, counts = np.unique(self.boxes.cls.astype(int), return_counts=True)
        return "".join(f"{n} {self.names[int(i)]}{'s' if n > 1 else ''}, " for i, n in zip(ids, counts))

    def __repr__(self):
        return f"Results({self.path}: {self.verbose()}{self.orig_shape[0]}x{self.orig_shape[1]})"


class _BoxMetrics:
    def __init__(self, s, classes):
        self.mp, self.mr, self.map50, self.map75, self.map = s.precision, s.recall, s.map50, s.map75, s.map50_95
        self.ap_class_index = np.array([c.class_id for c in classes], dtype=int)
        self.p = np.array([c.precision for c in classes])
        self.r = np.array([c.recall for c in classes])
        self.ap50 = np.array([c.map50 for c in classes])
        self.ap = np.array([c.map50_95 for c in classes])


class Metrics:
    """Result of a validation: `box.map`, `box.map50`, `box.mp`, `box.mr`, per class `box.p`, `box.r`, `box.ap50`,
    `box.ap`; `results_dict`, `fitness`, `speed`, `names`, `save_dir`."""

    def __init__(self, s):
        classes = [s.classes[i] for i in range(s.n_classes)]
        self.box = _BoxMetrics(s, classes)
        self.names = {c.class_id: from_c(c.name) for c in classes}
        self.fitness = s.fitness
        self.n_images, self.n_instances = s.n_images, s.n_instances
        self.speed = {"preprocess": s.preprocess_ms, "inference": s.inference_ms, "loss": s.loss_ms,
                      "postprocess": s.postprocess_ms}
        self.save_dir = from_c(s.save_dir) if s.save_dir else None

    @property
    def results_dict(self):
        return {"metrics/precision(B)": self.box.mp, "metrics/recall(B)": self.box.mr, "metrics/mAP50(B)": self.box.map50,
                "metrics/mAP50-95(B)": self.box.map, "fitness": self.fitness}

    def __repr__(self):
        return "Metrics(" + ", ".join(f"{k}={v:.4f}" for k, v in self.results_dict.items()) + ")"
