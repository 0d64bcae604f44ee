"""Pictures of the pages for the manual, of a fleet and a conversation that are made up; `scripts/screenshots` runs it.

Knows the pages' routes and the test suite's browser. What is shown is invented, the pages are real.
"""

from __future__ import annotations

import io
import os
import tempfile
from contextlib import ExitStack

import click
from PIL import Image
from starlette.applications import Starlette

from fakes.loopback import serve
from pallas_supervisor.http.page.routes import page_routes
from support.documents.browser.browser import run_chromium
from support.documents.browser.chat_scene import chat_scene
from support.documents.browser.fleet_scene import MadeUp
from support.repository import ROOT

IMAGES = ROOT / "docs" / "images"
SHOTS = {
    "status-light": ("", 1280, None, "light"),
    "status-dark": ("", 1280, None, "dark"),
    "status-narrow": ("", 390, 1500, "light"),
    "chat-light": ("chat", 1280, 950, "light"),
    "chat-dark": ("chat", 1280, 950, "dark"),
    "chat-narrow": ("chat", 390, 1100, "light"),
}
"""Name → path, width, height (None for all of it) and colour scheme; in pixels of the style sheet."""
READY = "document.readyState === 'complete' && document.getElementById('live')?.dataset.state !== ''"
FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <include>/etc/fonts/fonts.conf</include>
  <match><test name="family" qual="any"><string>sans-serif</string></test>
    <edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>
  <match><test name="family" qual="any"><string>sans</string></test>
    <edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>
  <match><test name="family" qual="any"><string>system-ui</string></test>
    <edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>
</fontconfig>
"""
"""What a desktop would say its font is; Debian has it as fonts-inter, and without it there is another."""

COLOURS = 128
"""Colours that a picture keeps: enough for a page of few, and a third of the size."""


@click.command()
@click.option(
    "--serve", "stay", is_flag=True, help="Serve the pages until Enter is pressed; take no picture."
)
def main(stay: bool) -> None:
    """Take the pictures."""
    application = Starlette(routes=[*page_routes(MadeUp().facts, lambda: 0.0), *chat_scene()])
    with ExitStack() as stack:
        server = stack.enter_context(serve(application))
        if stay:
            click.prompt(f"{server.origin}/ and /chat; Enter ends it", default="", show_default=False)
            return
        IMAGES.mkdir(exist_ok=True)
        fonts = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".conf"))
        fonts.write(FONTS)
        fonts.flush()
        os.environ["FONTCONFIG_FILE"] = fonts.name
        with run_chromium() as page:
            for name, (path, width, height, scheme) in SHOTS.items():
                page.look_like(width=width, height=height or 800, scale=1.5, prefers_color_scheme=scheme)
                page.open(f"{server.origin}/{path}?{name}")
                page.until_drawn(READY)
                picture = Image.open(io.BytesIO(page.screenshot(whole=height is None)))
                small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                small.save(IMAGES / f"{name}.png", optimize=True)
                size = (IMAGES / f"{name}.png").stat().st_size
                click.echo(
                    f"docs/images/{name}.png: {picture.width} × {picture.height}, {size / 1000:.0f} kB"
                )


if __name__ == "__main__":
    main()
