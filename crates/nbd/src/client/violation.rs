//! What servers and owners of clients can do wrong.

use thiserror::Error;

use crate::request::NbdRequest;
use crate::session::RequestRefusal;

/// What a server has done wrong. Nothing that it says counts any more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ServerViolation {
    /// It does not speak this protocol, or only in its oldest form.
    #[error("the server begins with {0:#018x} {1:#018x}: it is none for network block devices that negotiates")]
    Greeting(u64, u64),
    /// It speaks although nothing was asked.
    #[error("the server sends what nobody asked for")]
    Unasked,
    /// What answers an option is wrong.
    #[error("the answer to option {option}: {what}")]
    Answer {
        /// What was asked for.
        option: u32,
        /// What is wrong.
        what: &'static str,
    },
    /// What comes is no reply.
    #[error("a reply begins with {0:#010x}")]
    ReplyMagic(u32),
    /// There is no such request.
    #[error("a reply to {0:#x}, which was not asked for")]
    Cookie(u64),
    /// What answers a request is wrong.
    #[error("the reply to a {} at {}: {what}", .request.command.name(), .request.offset)]
    Reply {
        /// What was asked for.
        request: NbdRequest,
        /// What is wrong.
        what: &'static str,
    },
}

/// Why something cannot be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClientMisuse {
    /// It is too early or too late for it.
    #[error("this is not the time for it")]
    NotNow,
    /// The server answers no options but the name of an export.
    #[error("the server is too old for it")]
    TooOld,
    /// All requests that there may be are under way.
    #[error("no more requests can be under way")]
    Full,
    /// It was not agreed on.
    #[error(transparent)]
    Refused(#[from] RequestRefusal),
}
