"""Makes the small pictures of this folder and their pixels as OpenCV decodes them (B,G,R; orientation applied).

usage: make_images.py            (needs Pillow, numpy and opencv-python; writes beside itself)
"""
import json, pathlib
import cv2, numpy as np
from PIL import Image

here = pathlib.Path(__file__).parent
rng = np.random.default_rng(5)
rgb = cv2.resize(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8), (19, 13), interpolation=cv2.INTER_CUBIC)
im, grey = Image.fromarray(rgb), Image.fromarray(rgb[..., 1])
alpha = Image.fromarray(np.dstack([rgb, rgb[..., 0]]))
wide = (rgb.astype(np.uint16) * 251 + rng.integers(0, 200, rgb.shape)).astype(np.uint16)


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


im.save(here / "420.jpg", quality=92)
im.save(here / "444.jpg", quality=85, subsampling=0)
im.save(here / "progressive.jpg", quality=80, progressive=True)
grey.save(here / "grey.jpg", quality=90)
im.convert("CMYK").save(here / "cmyk.jpg", quality=90)
for o in range(2, 9):
    im.save(here / f"turned{o}.jpg", quality=90, exif=turned(o))
im.save(here / "rgb.png")
alpha.save(here / "rgba.png")
grey.save(here / "grey.png")
Image.merge("LA", (grey, grey)).save(here / "la.png")
im.quantize(16).save(here / "palette.png")
im.convert("1").save(here / "bit.png")
im.save(here / "turned6.png", exif=turned(6))
cv2.imwrite(str(here / "wide.png"), wide[..., ::-1])
cv2.imwrite(str(here / "widegrey.png"), wide[..., 1])
im.save(here / "lossy.webp", quality=80)
im.save(here / "lossless.webp", lossless=True)
alpha.save(here / "alpha.webp", lossless=True)
im.save(here / "turned8.webp", lossless=True, exif=turned(8))
im.save(here / "rgb.bmp")
grey.save(here / "grey.bmp")
im.quantize(16).save(here / "palette.bmp")
im.convert("1").save(here / "bit.bmp")
alpha.save(here / "rgba.bmp")
im.save(here / "rgb.tif", compression="tiff_lzw")
im.save(here / "deflate.tif", compression="tiff_adobe_deflate")
grey.save(here / "grey.tif")
im.quantize(16).save(here / "palette.tif")
im.convert("1").save(here / "bit.tif", compression="group4")
cv2.imwrite(str(here / "wide.tif"), wide[..., ::-1])
im.save(here / "turned6.tif", tiffinfo={274: 6})
alpha.save(here / "rgba.tif")

blob, index = b"", []
for path in sorted(p for p in here.iterdir() if p.suffix in (".jpg", ".png", ".webp", ".bmp", ".tif")):
    x = None if path.name == "rgba.tif" else cv2.imread(str(path), cv2.IMREAD_COLOR)  # it multiplies by alpha there
    if x is None:
        print("OpenCV cannot read", path.name)
        continue
    index.append(dict(name=path.name, dtype="u8", shape=list(x.shape), offset=len(blob)))
    blob += x.tobytes()
    blob += b"\0" * (-len(blob) % 16)
(here / "images.bin").write_bytes(blob)
(here / "images.idx").write_text(json.dumps(index))
