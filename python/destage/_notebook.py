"""What notebooks show."""

from __future__ import annotations

import html

from . import _destage

#: Of each front end, how it tells that its page is dark, or bright. Where none tells, the system's wish decides.
_DARK = "body[data-jp-theme-light=false] .destage-report, body.vscode-dark .destage-report, html[theme=dark] .destage-report"
_BRIGHT = "body[data-jp-theme-light=true] .destage-report, body.vscode-light .destage-report, html[theme=light] .destage-report"


def report(page: str) -> str:
    """The report's page within a notebook's, in a frame of its own, which is as dark as what surrounds it."""
    # What is in a frame that is dark is asked to be: `prefers-color-scheme` is the frame's `color-scheme`.
    return (
        f"<style>{_DARK} {{ color-scheme: dark }} {_BRIGHT} {{ color-scheme: light }}</style>"
        f'<iframe srcdoc="{html.escape(page, quote=True)}" class="destage-report" title="destage report" '
        'style="width:100%;height:48em;border:1px solid #8884" sandbox="allow-scripts allow-downloads"></iframe>'
    )


def _in_one_line(error: Exception) -> list[str]:
    """What IPython shows in place of a traceback: the message says all, and frames of destage would only hide it."""
    return [f"\x1b[31m{type(error).__name__}\x1b[39m: {error}"]


_destage.DestageError._render_traceback_ = _in_one_line  # type: ignore[attr-defined]
