//! The letters by which the kernel's block events say what is asked (`blk_fill_rwbs` in
//! `block/blk-core.c` and `kernel/trace/blktrace.c`).

/// Names the operation of a request, as far as the letters tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// `R`
    Read,
    /// `W`
    Write,
    /// `D`, and `DE` (secure erase)
    Discard,
    /// `F` as the operation: the flush that the block layer makes for whoever asked
    Flush,
    /// `N`: write zeroes (which has no letter), or without sectors a command passed through to the
    /// device
    Other,
    /// `Z` and another letter: zone append, reset, open, close, finish
    Zone,
}

/// The letters, understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RwbsFlags {
    /// A leading `F`: what was completed before must be durable before this begins.
    pub preflush: bool,
    /// Names the operation.
    pub kind: RequestKind,
    /// An `F` behind the operation: durable when complete.
    pub fua: bool,
    /// `DE`: a discard after which nobody can read the old content.
    pub secure: bool,
}

impl RwbsFlags {
    /// Understands the letters (up to the first zero byte); `None` if they are not of the kernel's
    /// alphabet. Flags that make no difference here (read-ahead, synchronous, metadata, atomic,
    /// ...) are passed over whatever they are: new kernels add some.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        let (preflush, rest) = match text {
            // `FF` is the flush itself, unless an operation stands between the letters.
            [b'F', b'F', rest @ ..] => return Some(Self::flush(rest)),
            [b'F'] => return Some(Self::flush(&[])),
            [b'F', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let (kind, flags) = match rest {
            [b'R', flags @ ..] => (RequestKind::Read, flags),
            [b'W', flags @ ..] => (RequestKind::Write, flags),
            [b'D', flags @ ..] => (RequestKind::Discard, flags),
            [b'N', flags @ ..] => (RequestKind::Other, flags),
            [b'Z', _, flags @ ..] => (RequestKind::Zone, flags),
            _ => return None,
        };
        if !flags.iter().all(u8::is_ascii_alphabetic) {
            return None;
        }
        // A read can carry the letter as well, but only writes are FUA in a trace.
        let fua = flags.contains(&b'F') && kind != RequestKind::Read;
        Some(Self { preflush, kind, fua, secure: kind == RequestKind::Discard && flags.first() == Some(&b'E') })
    }

    const fn flush(_flags: &[u8]) -> Self {
        Self { preflush: false, kind: RequestKind::Flush, fua: false, secure: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_mean_what_the_kernel_means() {
        let asked = |text: &str| {
            let a = RwbsFlags::parse(text.as_bytes()).unwrap();
            (a.preflush, a.kind, a.fua)
        };
        assert_eq!(asked("R"), (false, RequestKind::Read, false));
        assert_eq!(asked("RAM"), (false, RequestKind::Read, false));
        assert_eq!(asked("WS\0\0"), (false, RequestKind::Write, false));
        assert_eq!(asked("WFS"), (false, RequestKind::Write, true));
        assert_eq!(asked("FWS"), (true, RequestKind::Write, false));
        assert_eq!(asked("FWFSM"), (true, RequestKind::Write, true));
        assert_eq!(asked("DS"), (false, RequestKind::Discard, false));
        assert_eq!(asked("NS"), (false, RequestKind::Other, false));
        assert_eq!(asked("ZRA"), (false, RequestKind::Zone, false));
        assert_eq!(asked("FF"), (false, RequestKind::Flush, false));
        assert_eq!(asked("F"), (false, RequestKind::Flush, false));
        assert!(RwbsFlags::parse(b"DES").unwrap().secure);
        for bad in [&b""[..], b"X", b"FX", b"W\xff", b"Z", b"\0W", b"S"] {
            assert_eq!(RwbsFlags::parse(bad), None, "{bad:?}");
        }
    }
}
