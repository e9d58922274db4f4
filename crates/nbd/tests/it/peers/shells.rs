//! A client of libnbd that is told in Python what to do, also what a well-meaning client would not.

use std::process::Command;

use super::{Served, run, skip};

/// A Python that has libnbd; where there are several not all have it.
fn python(test: &str) -> Option<&'static str> {
    let has = |python: &&str| {
        Command::new(python).args(["-c", "import nbd"]).output().is_ok_and(|output| output.status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has);
    if found.is_none() {
        skip(test, "no Python with libnbd (Debian's package python3-libnbd)");
    }
    found
}

const SCRIPT: &str = r#"
import errno
import nbd
h = nbd.NBD()
h.set_request_structured_replies(STRUCTURED)
if STRUCTURED:
    h.add_meta_context("base:allocation")
    h.add_meta_context("destage:dirty")
h.connect_uri("URI")
assert h.get_size() == 8 << 20
assert h.get_structured_replies_negotiated() == STRUCTURED
assert h.get_block_size(nbd.SIZE_MINIMUM) == 512
h.set_strict_mode(0)

def fails(wanted, call, *args):
    try:
        call(*args)
    except nbd.Error as error:
        assert error.errnum == wanted, (error.errnum, wanted, args)
        return
    raise AssertionError((wanted, args))

h.pwrite(b"1" * 1024, 512)
h.pwrite(b"2" * 512, 4096, nbd.CMD_FLAG_FUA)
assert h.pread(2048, 0) == bytes(512) + b"1" * 1024 + bytes(512)
h.zero(512, 512)
h.zero(4096, 8192, nbd.CMD_FLAG_NO_HOLE)
h.zero(8192, 4096, nbd.CMD_FLAG_FAST_ZERO)
h.trim(4096, 16384)
h.cache(65536, 0)
h.flush()
assert h.pread(1024, 512) == bytes(512) + b"1" * 512

# Outside, unaligned, empty, too long, or with flags that do not belong there.
end = 8 << 20
fails(errno.EINVAL, h.pread, 1024, end - 512)
fails(errno.ENOSPC, h.pwrite, bytes(1024), end - 512)
fails(errno.ENOSPC, h.zero, 1024, end - 512)
fails(errno.EINVAL, h.trim, 1024, end)
fails(errno.EINVAL, h.cache, 1024, end)
fails(errno.EINVAL, h.pread, 512, 1)
fails(errno.EINVAL, h.pwrite, bytes(511), 0)
fails(errno.EINVAL, h.zero, 100, 0)
fails(errno.EINVAL, h.trim, 512, 256)
fails(errno.ENOTSUP, h.zero, 512, 0, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE)
fails(errno.EINVAL, h.pwrite, bytes(512), 0, nbd.CMD_FLAG_DF)
fails(errno.EINVAL, h.pread, 512, 0, nbd.CMD_FLAG_REQ_ONE)

if STRUCTURED:
    assert h.can_df() and h.can_meta_context("destage:dirty")
    h.pwrite(b"3" * 4096, 1 << 20)
    chunks = []
    def chunk(data, offset, status, error):
        chunks.append((len(data), offset, status))
    h.pread_structured(8192, 1 << 20, chunk)
    assert chunks == [(4096, 1 << 20, nbd.READ_DATA), (4096, (1 << 20) + 4096, nbd.READ_HOLE)], chunks
    chunks.clear()
    h.pread_structured(8192, 1 << 20, chunk, nbd.CMD_FLAG_DF)
    assert chunks == [(8192, 1 << 20, nbd.READ_DATA)], chunks
    extents = {}
    def extent(context, offset, entries, error):
        extents[context] = entries
    h.block_status(1 << 20, (1 << 20) - 4096, extent)
    assert extents["base:allocation"][:4] == [4096, 3, 4096, 0], extents
    assert extents["destage:dirty"][:4] == [4096, 0, 4096, 1], extents
    h.block_status(1 << 20, 1 << 20, extent, nbd.CMD_FLAG_REQ_ONE)
    assert extents["destage:dirty"] == [4096, 1], extents
    fails(errno.EINVAL, h.block_status, 1024, end - 512, extent)
    fails(errno.EINVAL, h.block_status, 1024, 1, extent)
else:
    assert not h.can_df()
    fails(errno.EINVAL, h.pread, 512, 0, nbd.CMD_FLAG_DF)

# The connection has survived all that.
assert h.pread(512, 1024) == b"1" * 512
h.shutdown()
"#;

#[test]
fn libnbd_gets_every_answer_that_the_protocol_promises() {
    let Some(python) = python("libnbd_gets_every_answer_that_the_protocol_promises") else { return };
    for structured in ["True", "False"] {
        let served = Served::new();
        let script = SCRIPT.replace("STRUCTURED", structured).replace("URI", &served.uri("sectors"));
        let path = served.path("script.py");
        std::fs::write(&path, script).expect("a script");
        run(python, &[&path]);
    }
}

#[test]
fn libnbd_cannot_change_what_is_frozen() {
    let Some(python) = python("libnbd_cannot_change_what_is_frozen") else { return };
    let served = Served::new();
    let script = format!(
        r#"
import errno
import nbd
h = nbd.NBD()
h.connect_uri("{}")
assert h.is_read_only() and not h.can_trim() and not h.can_zero()
h.set_strict_mode(0)
for call, args in [(h.pwrite, (bytes(512), 0)), (h.trim, (512, 0)), (h.zero, (512, 0))]:
    try:
        call(*args)
        raise AssertionError(call)
    except nbd.Error as error:
        assert error.errnum == errno.EPERM, error
assert h.pread(512, 0) == bytes(512)
"#,
        served.uri("frozen")
    );
    let path = served.path("script.py");
    std::fs::write(&path, script).expect("a script");
    run(python, &[&path]);
}
