# SPDX-License-Identifier: Apache-2.0
"""Trains a 3D residual U-Net (MONAI's SegResNet) to find grey and white matter in a head scan.

The scan is the MNI152 average brain at 1 mm that nilearn carries in its package, so nothing is
downloaded. One scan shows that the training works; it makes no medical tool.
"""

import argparse
import hashlib
from pathlib import Path

import numpy as np
import torch
from monai.data import DataLoader, Dataset
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss
from monai.networks.nets import SegResNet
from monai.transforms import Compose, EnsureTyped, RandScaleIntensityd, RandSpatialCropd
from monai.utils import set_determinism
from nilearn.datasets import (
    load_mni152_gm_template,
    load_mni152_template,
    load_mni152_wm_template,
)
from PIL import Image, ImageDraw, ImageFont

# Where each plane cuts its axis. The sagittal one keeps clear of the gap between the halves.
PLANES = {2: 0.5, 1: 0.5, 0: 0.38}
CLASSES = ("background", "grey matter", "white matter")
COLOURS = np.array([[0, 0, 0], [86, 180, 233], [230, 159, 0]], dtype=np.uint8)
# One crop a step: on a training this short more steps teach more than larger ones.
BATCH = 1
# Part of the scan's values that tells tissues apart, in percent: what is darker is fluid.
CONTRAST = (5, 99)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40, help="training steps (default 40)")
    parser.add_argument("--stop", type=int, help="end after so many of them, without a picture")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=96, help="edge of a crop, a multiple of 8")
    parser.add_argument("--out", type=Path, default=Path("out/brain_segmentation"))
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.size not in range(16, 129, 8):
        parser.error("--steps must be at least 1, --size a multiple of 8 from 16 to 128")
    return arguments


def load_scan():
    """The scan and its labels, both [1, x, y, z], cut to the brain."""
    scan, grey, white = (
        np.asarray(load(resolution=1).dataobj, dtype=np.float32)
        for load in (load_mni152_template, load_mni152_gm_template, load_mni152_wm_template)
    )
    labels = np.argmax(np.stack([1 - grey - white, grey, white]), axis=0)
    dark, bright = np.percentile(scan[scan > 0], CONTRAST).astype(scan.dtype)
    scan = np.clip((scan - dark) / (bright - dark), 0, 1) * 2 - 1
    box = tuple(slice(where.min(), where.max() + 1) for where in np.nonzero(labels))
    return scan[box][None], labels[box][None].astype(np.float32)


def crops(scan, labels, size, count):
    transform = Compose(
        [
            RandSpatialCropd(["image", "label"], roi_size=(size,) * 3, random_size=False),
            RandScaleIntensityd("image", factors=0.1, prob=0.5),
            EnsureTyped(["image", "label"], track_meta=False),
        ]
    )
    return Dataset([{"image": scan, "label": labels}] * count, transform)


def train(network, data, steps, stop):
    criterion = DiceCELoss(to_onehot_y=True, softmax=True)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    losses = []
    for step, batch in enumerate(DataLoader(data, batch_size=BATCH), start=1):
        optimizer.zero_grad()
        loss = criterion(network(batch["image"]), batch["label"])
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        print(f"step {step} loss {losses[-1]:.4f}", flush=True)
        if step == stop:
            break
    return losses


@torch.no_grad()
def predict_slice(network, scan, labels, axis, size):
    """Scan, target and prediction on a plane across `axis`, from a slab around it."""
    thickness = min(size, 32)
    middle = int(scan.shape[axis + 1] * PLANES[axis])
    begin = middle - thickness // 2
    slab = np.take(scan, range(begin, begin + thickness), axis + 1)
    window = [size] * 3
    window[axis] = thickness
    scores = sliding_window_inference(torch.from_numpy(slab)[None], window, 1, network)
    prediction = scores.argmax(1)[0].numpy()
    return (
        np.take(scan[0], middle, axis),
        np.take(labels[0], middle, axis).astype(int),
        np.take(prediction, thickness // 2, axis),
    )


def dice(prediction, target, label):
    total = np.sum(prediction == label) + np.sum(target == label)
    return 2 * np.sum((prediction == label) & (target == label)) / max(total, 1)


def panel(pixels, width, height):
    """One slice, upright (the scan's last axis points up), centred on black."""
    image = Image.fromarray(np.ascontiguousarray(np.rot90(pixels))).convert("RGB")
    image = image.resize((image.width * 3 // 2, image.height * 3 // 2), Image.Resampling.BICUBIC)
    canvas = Image.new("RGB", (width, height))
    canvas.paste(image, ((width - image.width) // 2, (height - image.height) // 2))
    return canvas


def draw(slices, scores, path):
    """Rows: planes. Columns: scan, target, prediction."""
    width, height, gap, head, foot = 284, 284, 8, 30, 34
    font = ImageFont.load_default(size=15)
    sheet = Image.new("RGB", (3 * width + 4 * gap, head + 3 * (height + gap) + foot), (24, 24, 28))
    pen = ImageDraw.Draw(sheet)
    for column, title in enumerate(("scan", "target", "prediction")):
        x = gap + column * (width + gap)
        pen.text((x + width / 2, head / 2), title, (235, 235, 235), font, anchor="mm")
        for row, (scan, target, prediction) in enumerate(slices):
            grey = np.clip((scan - scan.min()) / np.ptp(scan) * 255, 0, 255).astype(np.uint8)
            pixels = (grey, COLOURS[target], COLOURS[prediction])[column]
            sheet.paste(panel(pixels, width, height), (x, head + row * (height + gap)))
    x, y = gap, sheet.height - foot / 2 - gap / 2
    for label in (1, 2):
        pen.rectangle((x, y - 7, x + 14, y + 7), tuple(COLOURS[label].tolist()))
        text = f"{CLASSES[label]}: Dice {scores[label]:.2f}"
        pen.text((x + 22, y), text, (235, 235, 235), font, anchor="lm")
        x += width + gap
    sheet.save(path)


def fingerprint(network):
    """SHA-256 over names, types, shapes and bytes of all weights."""
    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().numpy())
    return digest.hexdigest()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(2)
    set_determinism(arguments.seed, use_deterministic_algorithms=True)
    arguments.out.mkdir(parents=True, exist_ok=True)

    scan, labels = load_scan()
    network = SegResNet(spatial_dims=3, init_filters=16, in_channels=1, out_channels=len(CLASSES))
    data = crops(scan, labels, arguments.size, arguments.steps * BATCH)
    data.transform.set_random_state(arguments.seed)
    losses = train(network, data, arguments.steps, arguments.stop)
    if not arguments.stop:
        evaluate(network, scan, labels, arguments)
    print("losses", *(loss.hex() for loss in losses))
    print("weights sha256", fingerprint(network))


def evaluate(network, scan, labels, arguments):
    """A picture, and how well it fits."""
    network.eval()
    slices = [predict_slice(network, scan, labels, axis, arguments.size) for axis in PLANES]
    target = np.concatenate([part[1].ravel() for part in slices])
    prediction = np.concatenate([part[2].ravel() for part in slices])
    scores = [dice(prediction, target, label) for label in range(len(CLASSES))]
    draw(slices, scores, arguments.out / "segmentation.png")
    print(f"picture {arguments.out / 'segmentation.png'}")
    print(f"dice grey {scores[1]:.4f} white {scores[2]:.4f}")


if __name__ == "__main__":
    main()
