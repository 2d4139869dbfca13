"""Our times beside what a user would run instead, on the same CPU in the same call: medians of alternating steps, and their ratio.

usage: compare_cpu.py BUILD_FOLDER     run by an interpreter that has the reference package (ultralytics 8.4), torch and onnxruntime
"""
import os, resource, subprocess, sys, tempfile, time
os.environ.setdefault("YOLO_OFFLINE", "1")
os.environ.setdefault("YOLO_CONFIG_DIR", tempfile.gettempdir())
weights = os.path.abspath(os.environ["BENCH_WEIGHTS"]) if "BENCH_WEIGHTS" in os.environ else "yolo26n.yaml"
build, threads = sys.argv[1], int(os.environ.get("BENCH_THREADS", "2"))


def median(values):
    return sorted(values)[len(values) // 2]


class Ours:
    """bench_step: a line in, milliseconds out."""

    def __init__(self, *args):
        self.process = subprocess.Popen([os.path.join(build, "bench", "bench_step"), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={"GOMP_SPINCOUNT": "1000", **os.environ})  # as the program itself waits
        assert self.process.stdout.readline() == "ready\n"

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def finish(self):
        self.process.stdin.close()
        return int(self.process.stdout.readline())


def alternate(name, goal, ours, theirs, rounds, warm=2):
    for _ in range(warm):
        ours.step()
        theirs()
    a, b = [], []
    for _ in range(rounds):
        a.append(ours.step())
        start = time.perf_counter()
        theirs()
        b.append(1e3 * (time.perf_counter() - start))
    print(f"{name}: ours {median(a):.1f} ms, theirs {median(b):.1f} ms, ratio {median(a) / median(b):.2f} (goal {goal})", flush=True)


def predict():
    import numpy as np
    import onnxruntime
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([os.path.abspath(os.path.join(build, "yolo")), "export", f"model={weights}", "format=onnx"], cwd=folder, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.force_spinning_stop", "1")  # its threads must not spin while ours are measured
        session = onnxruntime.InferenceSession(os.path.join(folder, made.stdout.split("saved as '")[1].split("'")[0]), options, providers=["CPUExecutionProvider"])
    x = np.random.rand(1, 3, 640, 640).astype(np.float32)
    ours = Ours("predict", "n", "1", "640")
    alternate("predict yolo26n 640, against ONNX Runtime's CPU provider", "<= 0.9", ours, lambda: session.run(None, {"images": x}), 15)
    ours.finish()


def train():
    import torch
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel
    torch.set_num_threads(threads)
    net = DetectionModel("yolo26n.yaml", nc=80, verbose=False).train()
    net.args = get_cfg()
    net.criterion = net.init_criterion()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    images = torch.rand(4, 3, 640, 640)
    batch = dict(img=images, batch_idx=torch.arange(32).float() // 8, cls=torch.randint(0, 80, (32, 1)).float(), bboxes=torch.rand(32, 4) * 0.3 + 0.2)

    def step():
        loss, _ = net.loss(batch)
        loss.sum().backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        optimizer.step()
        optimizer.zero_grad()

    ours = Ours("train", "n", "4", "640")
    alternate("training step yolo26n 640 batch 4, against torch", "<= 0.7", ours, step, 5, 1)
    mine, theirs = ours.finish(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"peak memory of training at batch 4: ours {mine} MiB, theirs {theirs} MiB, ratio {mine / theirs:.2f} (goal < 0.5)", flush=True)


{"predict": predict, "train": train}[sys.argv[2]]()
