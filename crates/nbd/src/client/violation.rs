//! Defines the errors of servers, and of owners of a client.

use thiserror::Error;

use crate::request::NbdRequest;
use crate::session::RequestRefusal;

/// Tells how a server broke the protocol. The client trusts no further bytes of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ServerViolation {
    /// Tells that the server does not speak this protocol, or only its oldest form.
    #[error("the server begins with {0:#018x} {1:#018x}: it is none for network block devices that negotiates")]
    Greeting(u64, u64),
    /// Tells that the server sends without having been asked.
    #[error("the server sends what nobody asked for")]
    Unasked,
    /// Tells that the answer to an option is wrong.
    #[error("the answer to option {option}: {what}")]
    Answer {
        /// Numbers the option.
        option: u32,
        /// Says what is wrong.
        what: &'static str,
    },
    /// Tells that the bytes are no reply.
    #[error("a reply begins with {0:#010x}")]
    ReplyMagic(u32),
    /// Tells that there is no request with this cookie.
    #[error("a reply to {0:#x}, which was not asked for")]
    Cookie(u64),
    /// Tells that the reply to a request is wrong.
    #[error("the reply to a {} at {}: {what}", .request.command.name(), .request.offset)]
    Reply {
        /// Holds the request.
        request: NbdRequest,
        /// Says what is wrong.
        what: &'static str,
    },
}

/// Tells why something cannot be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClientMisuse {
    /// Tells that it is too early or too late.
    #[error("this is not the time for it")]
    NotNow,
    /// The server answers no options but the name of an export.
    #[error("the server is too old for it")]
    TooOld,
    /// All requests that there may be are under way.
    #[error("no more requests can be under way")]
    Full,
    /// Tells that the session does not allow the request.
    #[error(transparent)]
    Refused(#[from] RequestRefusal),
}
