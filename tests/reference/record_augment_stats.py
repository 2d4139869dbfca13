"""Records the distribution of the reference package's random training pictures: tests/golden/augment_stats.

usage: record_augment_stats.py IMAGES_ROOT OUT.json ROUNDS SEED [case ...]

For each case (arguments that differ from the defaults) ROUNDS passes over a detect data set (IMAGES_ROOT/images/train2017 and its labels, 80 classes) at imgsz 320, after two passes that are
not counted: the partners of a mosaic come from the pictures that were seen last, and at first these are few. [value, standard error] of
the boxes a picture, share of pictures without boxes, box centre and sides (normalised), channel means (RGB, 0..1), standard deviation of a
picture, share of pixels of the padding's value; and for some shares of all boxes the area that they stay below, with the share's error.
Errors of boxes: the boxes of a picture move together, so a picture is what is drawn independently; every picture of the set comes equally
often, so only differences among the draws of one picture count.
"""
import json, os, random, sys
os.environ.setdefault("YOLO_OFFLINE", "1")
import numpy as np, torch
from ultralytics.cfg import get_cfg
from ultralytics.data import build_yolo_dataset

root, out_path, rounds, seed = os.path.abspath(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
GEOMETRY = dict(mosaic=0.0, degrees=20.0, shear=5.0, scale=0.3, translate=0.2, fliplr=0.0, hsv_h=0, hsv_s=0, hsv_v=0)
COLOUR = dict(mosaic=0.0, hsv_h=0.1, hsv_s=0.9, hsv_v=0.9, translate=0.0, scale=0.0, fliplr=0.5, flipud=0.3, bgr=0.3)
CASES = {"default": {}, "no_mosaic": dict(mosaic=0.0), "geometry": GEOMETRY, "mixup": dict(mixup=0.5), "cutmix": dict(mosaic=0.0, cutmix=1.0), "colour": COLOUR}


def spread(sums, weights, n):
    """Mean of sums/weights over samples that cycle through n pictures, and its error."""
    mean = sums.sum() / weights.sum()
    off = (sums - mean * weights).reshape(-1, n)
    return [float(mean), float(np.sqrt((off.var(0, ddof=1) * len(off)).sum()) / weights.sum())]


def plain(x):
    return [float(np.mean(x)), float(np.std(x) / np.sqrt(len(x)))]


result = {}
for case in sys.argv[5:] or list(CASES):
    random.seed(seed); np.random.seed(seed); torch.manual_seed(seed)
    cfg = get_cfg(overrides=dict(imgsz=320, **CASES[case]))
    ds = build_yolo_dataset(cfg, root + "/images/train2017", 16, dict(names={i: str(i) for i in range(80)}, nc=80, channels=3), mode="train", stride=32)
    boxes, mean, std, pad = [], [], [], []
    for i in range((2 + rounds) * len(ds)):
        s = ds[i % len(ds)]
        if i < 2 * len(ds): continue
        planes = s["img"].numpy()
        boxes.append(s["bboxes"].numpy().astype(np.float64)); mean.append(planes.mean((1, 2)) / 255); std.append((planes / np.float32(255)).std()); pad.append((planes == 114).all(0).mean())
    count = np.array([len(b) for b in boxes], float)
    area = [b[:, 2] * b[:, 3] for b in boxes]
    r = dict(arguments=CASES[case], samples=len(boxes), pictures=len(ds), boxes_per_picture=spread(count, np.ones(len(count)), len(ds)), empty_share=plain(count == 0))
    for k, name in enumerate(("centre_x", "centre_y", "width", "height")): r[name] = spread(np.array([b[:, k].sum() for b in boxes]), count, len(ds))
    for k, name in enumerate(("red", "green", "blue")): r[name] = plain([m[k] for m in mean])
    r["pixel_std"], r["pad_share"] = plain(std), plain(pad)
    limits = np.quantile(np.concatenate(area), (0.1, 0.25, 0.5, 0.75, 0.9)) * 1.0001  # not on the area of a box that is never scaled
    r["area_quantiles"] = [[*(lambda e: (e[0], float(x), e[1]))(spread(np.array([(a <= x).sum() for a in area], float), count, len(ds)))] for x in limits]
    result[case] = r
    json.dump(result, open(out_path, "w"), indent=1)
