"""Traces that are fetched, once by each machine (docs/sweeps.md)."""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
from pathlib import Path

from . import _destage

#: Names the folder in which traces are kept that were fetched.
CACHE = "DESTAGE_CACHE"
BLOCK = 1 << 20


def _cache() -> Path:
    given = os.environ.get(CACHE)
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "destage"


def _file_name(url: str) -> str:
    return url.split("?")[0].rstrip("/").rsplit("/", 1)[-1] or "trace"


def fetched(url: str, content: str | None = None) -> Path:
    """The file with what is at a URL, fetched unless it is here; `content` is the SHA-256 that it has to have."""
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        raise _destage.DestageError(f"{url}: URLs need fsspec: pip install 'destage[dask]'") from None
    cache, name = _cache(), _file_name(url)
    known = cache / content / name if content else None
    if known and known.exists():
        return known
    try:
        system, path = fsspec.core.url_to_fs(url)
        seen = None
        if content is None:
            # What a store says that is there now, so that it need not be fetched to know what it is.
            try:
                seen = cache / "seen" / hashlib.sha256(f"{url} {system.ukey(path)}".encode()).hexdigest()
                known = cache / seen.read_text() / name
                if known.exists():
                    return known
            except (OSError, NotImplementedError, ValueError):
                pass
        cache.mkdir(parents=True, exist_ok=True)
        part, found = tempfile.mkstemp(prefix=".part-", dir=cache), hashlib.sha256()
        try:
            with system.open(path, "rb") as source, os.fdopen(part[0], "wb") as to:
                while block := source.read(BLOCK):
                    found.update(block)
                    to.write(block)
            if content and found.hexdigest() != content:
                raise _destage.DestageError(f"{url}: holds something else than when the sweep was planned")
            file = cache / found.hexdigest() / name
            file.parent.mkdir(exist_ok=True)
            os.replace(part[1], file)
        finally:
            Path(part[1]).unlink(missing_ok=True)
        if seen:
            seen.parent.mkdir(exist_ok=True)
            seen.write_text(found.hexdigest())
    except (OSError, ValueError, ImportError) as error:
        raise _destage.DestageError(f"{url}: cannot be fetched: {error}") from None
    return file
