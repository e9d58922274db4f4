"""Policies that are written in Python."""

import pytest

import destage


class Lru(destage.Policy):
    """Least recently used: a dict keeps the order in which its keys were put in."""

    def __init__(self, capacity_pages, pages_per_block):
        super().__init__(capacity_pages, pages_per_block)
        self.pages = {}

    def access(self, page, is_write):
        held = self.pages.pop(page, self) is None
        self.pages[page] = None
        return None if held or len(self.pages) <= self.capacity_pages else self.evict()

    def evict(self):
        victim = next(iter(self.pages))
        del self.pages[victim]
        return victim

    def admits(self, page, is_write):
        return page not in self.pages

    def trimmed(self, page):
        del self.pages[page]


COUNTS = [
    "accesses", "hits", "read_hits", "write_hits", "write_insertions", "evictions", "dirty_pages_flushed", "clean_drops",
    "trimmed_pages", "drain_pages_flushed",
]  # fmt: skip


@pytest.mark.parametrize("settings", [{}, {"admission": "request"}, {"device": "ssd", "max_backlog": 1_000_000}])
def test_lru_in_python_does_what_the_built_in_one_does(trace, settings):
    built_in, own = destage.simulate(trace, policy=["lru", Lru], cache="2MiB", limit=20_000, **settings)
    assert own.policy == "python-Lru" and own.hits > 1_000 and own.evictions > 1_000
    for count in COUNTS:
        assert own[count] == built_in[count], count
    assert own.response == built_in.response and own.ssd == built_in.ssd


class Blocks(destage.Policy):
    """Evicts the block with most pages, as FAB does."""

    name = "my-fab"
    unit = "block"

    def __init__(self, capacity_pages, pages_per_block):
        super().__init__(capacity_pages, pages_per_block)
        self.blocks = {}

    def access(self, page, is_write):
        block = page // self.pages_per_block
        if page in self.blocks.get(block, ()):
            return None
        if not is_write:
            return False
        victims = None
        if sum(map(len, self.blocks.values())) == self.capacity_pages:
            victims = [self.blocks.pop(max(self.blocks, key=lambda block: len(self.blocks[block])))]
        self.blocks.setdefault(block, []).append(page)
        return victims


def test_blocks_leave_as_one_victim(trace):
    run = destage.simulate(trace, policy=Blocks, cache="1MiB", limit=5_000, trim="ignore").runs[0]
    assert run.policy == "my-fab" and run.bypassed_reads == run.read_pages - run.read_hits
    assert run.pages_per_eviction > 2 and sum(run.eviction_sizes) == run.evictions > 10


def broken(access, **members):
    return type("Broken", (destage.Policy,), {"access": access, **members})


def test_what_a_policy_raises_is_raised_by_the_call(trace):
    def access(self, page, is_write):
        if self.capacity_pages == 256 and page > 10:
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        destage.simulate(trace, policy=["lru", broken(access)], cache="1MiB", limit=5_000)

    def begins(self, capacity_pages, pages_per_block):
        raise ValueError(f"too small: {capacity_pages}")

    with pytest.raises(ValueError, match="too small: 256"):
        destage.simulate(trace, policy=broken(access, __init__=begins), cache="1MiB")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "lets page .* in while the buffer is full: it holds 4 pages"),
        (99_999_999, "evicts page 99999999 at the access to page .*, which is not in the buffer"),
        ([[1, 2]], "evicts 2 pages as one victim, which only a policy that evicts blocks does"),
    ],
)
def test_a_policy_that_breaks_the_rules_is_told(trace, answer, message):
    with pytest.raises(destage.DestageError, match=f"policy 'python-Broken' {message}"):
        destage.simulate(trace, policy=broken(lambda *_: answer), cache="16KiB")


def test_a_policy_that_answers_something_else_is_told(trace):
    for answer, shown in [("page", "'page'"), (True, "True"), (-1, "-1"), ([1.5], r"\[1.5\]")]:
        with pytest.raises(TypeError, match=f"policy 'python-Broken': access returned {shown}, and may return None, False"):
            destage.simulate(trace, policy=broken(lambda *_, answer=answer: answer), cache="16KiB")
    policy = broken(lambda *_: None)
    with pytest.raises(NotImplementedError, match="has no evict"):
        destage.simulate(trace, policy=policy, cache="1MiB", admission="request")
    with pytest.raises(destage.DestageError, match="is a buffer inside an SSD"):
        destage.simulate(trace, policy=policy, array="raid5:5")
    with pytest.raises(destage.DestageError, match="another policy has this name"):
        destage.simulate(trace, policy=broken(None, name="LRU"), cache="16KiB")
    with pytest.raises(destage.DestageError, match="derived from destage.Policy"):
        destage.simulate(trace, policy=[int], cache="16KiB")
