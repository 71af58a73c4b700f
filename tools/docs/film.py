"""A film of the console, made of pictures of a page."""

import io
from pathlib import Path

from PIL import Image

WIDTH = 960
"""How wide the film is, in pixels."""

QUALITY = 60


class Film:
    """Pictures in their order, each with the time that it stays."""

    def __init__(self) -> None:
        self._frames: list[tuple[Image.Image, int]] = []

    def add(self, picture: bytes, stays_ms: int) -> None:
        """Add a picture in PNG."""
        image = Image.open(io.BytesIO(picture)).convert("RGB")
        size = (WIDTH, round(image.height * WIDTH / image.width))
        self._frames.append((image.resize(size, Image.Resampling.LANCZOS), stays_ms))

    def write(self, path: Path) -> None:
        """Write the film as an animated WebP that repeats."""
        (first, _), *others = self._frames
        first.save(
            path,
            save_all=True,
            append_images=[image for image, _ in others],
            duration=[stays_ms for _, stays_ms in self._frames],
            loop=0,
            quality=QUALITY,
            method=6,
        )
