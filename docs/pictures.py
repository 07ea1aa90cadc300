"""Takes the pictures of a report that docs/tutorials/report.md shows.

python docs/pictures.py runs/friedman/report.html, after the search on that page; needs Chromium.
"""

import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

FIGURES = Path(__file__).parent / "figures"
SECTIONS = "header.answer, main section"
# What is shown: the name of the file, the first and the last section, counted from the top.
PICTURES = {"answer": (0, 0), "front": (1, 1), "architecture": (2, 2), "inside": (3, 6)}
MARGIN = 12


def take(page: Page, path: Path, first: int, last: int) -> None:
    boxes = [page.locator(SECTIONS).nth(place).bounding_box() for place in (first, last)]
    top, bottom = boxes[0]["y"] - MARGIN, boxes[1]["y"] + boxes[1]["height"] + MARGIN
    clip = {"x": 30, "y": max(top, 0), "width": 1020, "height": bottom - max(top, 0)}
    page.screenshot(path=path, clip=clip, full_page=True)
    Image.open(path).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)


def main(report: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        size = {"width": 1080, "height": 1000}
        page = browser.new_page(viewport=size, device_scale_factor=1.25, color_scheme="light")
        page.goto(report.absolute().as_uri())
        page.wait_for_timeout(500)
        for name, (first, last) in PICTURES.items():
            take(page, FIGURES / f"report_{name}.png", first, last)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
