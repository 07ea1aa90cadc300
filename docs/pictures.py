"""Takes the pictures of a report that README and docs/tutorials/report.md show; needs Chromium.

    python docs/pictures.py

The table and the search are those of the tutorial: its first blocks are run. A picture carries the
digest of what it depends on, that tutorial's blocks and all of the report that makes the page, and
the sentence it shows. A test compares both with today's report and with what the tutorial says:
after a change of either the pictures are to be taken again.
"""

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
TUTORIAL = ROOT / "docs" / "tutorials" / "report.md"
REPORTS = ROOT / "src" / "torchsparcs" / "report"
ELSEWHERE = {"__init__", "document", "excerpt", "figures", "notebook", "plot", "tensorboard"}
REPORT = "runs/friedman/report.html"
# What is shown of the page: a name, and parts beside or below each other, by their titles.
PARTS = {
    "answer": ("header.answer",),
    "front": ("front-title",),
    "architecture": ("architecture-title",),
    "inside": ("eigenvalues-title", "training-title", "pruning-title", "answers-title"),
}
WHOLE = {"wide": (1088, 1500, "light"), "phone": (390, 1500, "dark")}
PATHS = [FIGURES / f"report_{name}.png" for name in (*PARTS, *WHOLE)]
MARGIN, SCALE, COLOURS = 12, 1.25, 64


def blocks() -> list[tuple[str, str]]:
    """The language and the text of the two blocks that make the table and search it."""
    found = re.findall(r"^```(python|bash)\n(.*?)^```", TUTORIAL.read_text(), re.M | re.S)
    return found[:2]


def digest() -> str:
    """Of all that decides what the pictures show, but for how searches go."""
    parts = [text.encode() for _, text in blocks()]
    parts += [path.read_bytes() for path in sorted((REPORTS / "assets").iterdir())]
    modules = sorted(path for path in REPORTS.glob("*.py") if path.stem not in ELSEWHERE)
    parts += [path.read_bytes() for path in modules]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def search(folder: Path) -> None:
    """Do what the tutorial does."""
    runner = {"python": [sys.executable, "-c"], "bash": ["bash", "-ec"]}
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for language, text in blocks():
        environment = {**os.environ, "PATH": here}
        subprocess.run([*runner[language], text], cwd=folder, env=environment, check=True)


def keep(image: bytes, name: str, shown: str, said: str) -> None:
    info = PngInfo()
    info.add_text("shows", shown)
    info.add_itxt("says", said)
    few = Image.open(io.BytesIO(image)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(FIGURES / f"report_{name}.png", optimize=True, pnginfo=info)


def take(report: Path) -> None:
    from playwright.sync_api import sync_playwright

    shown = digest()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, (width, height, scheme) in WHOLE.items():
            size = {"width": width, "height": height}
            scale = 1 if name == "phone" else SCALE
            page = browser.new_page(viewport=size, device_scale_factor=scale, color_scheme=scheme)
            page.goto(report.absolute().as_uri())
            page.wait_for_timeout(500)
            said = page.text_content("header").strip()
            said = " ".join(said.replace("\u00a0", " ").replace("\u2011", "-").split())
            keep(page.screenshot(), name, shown, said)
            if name != "wide":
                continue
            page.evaluate(
                "for (const d of document.querySelectorAll('details:has(section)')) d.open = true"
            )
            page.wait_for_timeout(200)
            for part, titles in PARTS.items():
                boxes = [page.locator(selector(title)).bounding_box() for title in titles]
                top = max(min(box["y"] for box in boxes) - MARGIN, 0)
                bottom = max(box["y"] + box["height"] for box in boxes) + MARGIN
                clip = {"x": 30, "y": top, "width": width - 60, "height": bottom - top}
                keep(page.screenshot(clip=clip, full_page=True), part, shown, said)
        browser.close()


def selector(title: str) -> str:
    return title if "." in title else f"[aria-labelledby={title}]"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        search(Path(folder))
        take(Path(folder) / REPORT)
