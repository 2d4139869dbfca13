"""Starts a training run of the reference package and ends the process after its second epoch, leaving a resumable last.pt.

usage: interrupted_run.py MODEL.pt DATA.yaml PROJECT NAME
"""
import os
import sys

import torch
from ultralytics import YOLO

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
weights, data, project, name = sys.argv[1:5]
model = YOLO(weights)


def stop(trainer):
    if trainer.epoch == 1:
        sys.stdout.flush()
        os._exit(0)


model.add_callback("on_model_save", stop)
model.train(data=data, epochs=3, imgsz=64, batch=4, nbs=4, optimizer="SGD", workers=0, project=project, name=name, plots=False,
            verbose=False, device="cpu")
