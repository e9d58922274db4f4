"""Policies that are written in Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Literal, TypeAlias

Victims: TypeAlias = int | Iterable[int] | Iterable[Iterable[int]]


class Policy(ABC):
    """A replacement policy for a buffer inside an SSD, for trying an idea.

    Derive from it, say in `access` which pages leave, and give the class to `destage.simulate(..., policy=[...])` beside
    the names of built-in ones. What is in the buffer, what is dirty, hits, flushes and discards are kept by destage; a
    policy that evicts what the buffer does not hold, or lets a page in while it is full, ends the simulation with a
    `DestageError`, and whatever a method raises is raised by the call.

    It is slower than a built-in policy by an order of magnitude or more, since each page access calls Python: a million
    accesses take a second or two (docs/python.md).

    Pages are whole numbers from 0, at most as many as the trace touches or the SSD has; page `p` belongs to block
    `p // pages_per_block`. Pages of a block lie beside each other on the device. Without a device, or where
    addresses are far apart, blocks are numbered in the order in which they are first touched.
    """

    name: ClassVar[str] = ""
    """What results call it; `python-` and the class's name unless it is given."""
    unit: ClassVar[Literal["page", "block"]] = "page"
    """What leaves at once: a page, or pages of a block."""

    def __init__(self, capacity_pages: int, pages_per_block: int) -> None:
        """Begins a run with an empty buffer. One may be made more than is used, to see that it can be.

        capacity_pages: how many pages the buffer holds at most.
        pages_per_block: pages in a logical block.
        """
        self.capacity_pages = capacity_pages
        self.pages_per_block = pages_per_block

    @abstractmethod
    def access(self, page: int, is_write: bool) -> Victims | None | Literal[False]:
        """A page is read or written. Returns what leaves the buffer first.

        None: nothing leaves.
        Victims: a page, or pages one after the other, leave; with `unit = "block"` also lists of pages, each of which leaves
            as one victim and belongs to one block.
        False: the page, which the buffer does not hold, is not let in, and the access goes to the device.

        Unless it returns False a page that was not held is held afterwards, and must have room.
        """

    def evict(self) -> Victims:
        """Returns a victim, as for a page that is about to come in. Needed with `admission="request"` alone."""
        raise NotImplementedError(f"policy '{self.name or 'python-' + type(self).__name__}' has no evict(), which admission=request needs")

    def admits(self, page: int, is_write: bool) -> bool:
        """Whether a page that is not held would be let in. Asked with `admission="request"` alone."""
        return True

    def trimmed(self, page: int) -> None:
        """The page has left without having been chosen: it was discarded, or written past the buffer."""

    def cleaned(self, pages: list[int]) -> None:
        """These pages were written by a flush, and are still held."""
