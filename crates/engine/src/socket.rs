//! Sockets: Unix and TCP alike.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Lists the characters that mean something else in a URI, or cannot be in one.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Listens for clients on a Unix or TCP socket.
#[derive(Debug)]
pub struct SocketListener {
    kind: SocketKind,
}

#[derive(Debug)]
enum SocketKind {
    Unix {
        listener: UnixListener,
        path: PathBuf,
        /// The file goes when the listener does.
        is_ours: bool,
    },
    Tcp(TcpListener),
}

impl SocketListener {
    /// A Unix socket of this name. One that is there and that nobody listens to, as a server leaves it that
    /// was killed, is replaced.
    ///
    /// # Errors
    /// If somebody listens to it, or it cannot be made.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let listener = match UnixListener::bind(path) {
            // A killed server leaves its file behind. Only a socket that refuses connections is removed.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) => {
                std::fs::remove_file(path)?;
                UnixListener::bind(path)
            }
            bound => bound,
        }?;
        // One thread serves the array and all clients, so no call on a socket may wait.
        listener.set_nonblocking(true)?;
        Ok(Self { kind: SocketKind::Unix { listener, path: path.to_owned(), is_ours: true } })
    }

    /// Sockets that whoever has started this process has opened for it and listens to, as systemd does: it says so in
    /// `LISTEN_FDS` and `LISTEN_PID`. They are handed over once, and stay there when the process ends.
    ///
    /// # Errors
    /// If one is of another kind than the stream sockets that clients come to.
    pub fn handed_over() -> io::Result<Vec<Self>> {
        let mut all = ListenFd::from_env();
        (0..all.len()).map(|number| Self::handed(&mut all, number)).collect()
    }

    fn handed(all: &mut ListenFd, number: usize) -> io::Result<Self> {
        let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidInput, format!("socket {number}: {why}"));
        let gone = || wrong("it was not handed over".to_owned());
        let listener = if let Ok(listener) = all.take_unix_listener(number) {
            let listener = listener.ok_or_else(gone)?;
            let path = listener.local_addr()?.as_pathname().map(Path::to_owned);
            let path =
                path.ok_or_else(|| wrong("a Unix socket without a path, by which clients name it".to_owned()))?;
            Self { kind: SocketKind::Unix { listener, path, is_ours: false } }
        } else {
            let listener = all.take_tcp_listener(number);
            let listener = listener.map_err(|_| wrong("neither a Unix nor a TCP stream socket".to_owned()))?;
            Self { kind: SocketKind::Tcp(listener.ok_or_else(gone)?) }
        };
        // `Accept=yes` in systemd hands over one client's connection, which would serve that client and then end.
        let is_connection = match &listener.kind {
            SocketKind::Unix { listener, .. } => {
                listener.set_nonblocking(true)?;
                UnixStream::from(OwnedFd::from(listener.try_clone()?)).peer_addr().is_ok()
            }
            SocketKind::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                TcpStream::from(OwnedFd::from(listener.try_clone()?)).peer_addr().is_ok()
            }
        };
        if is_connection {
            return Err(wrong("it is one client's connection: systemd's socket unit has to say Accept=no".to_owned()));
        }
        Ok(listener)
    }

    /// A TCP address.
    ///
    /// # Errors
    /// If it cannot be had.
    pub fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { kind: SocketKind::Tcp(listener) })
    }

    /// The address, if it is one of TCP: with the port that was drawn if none was asked for.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.kind {
            SocketKind::Tcp(listener) => listener.local_addr().ok(),
            SocketKind::Unix { .. } => None,
        }
    }

    /// Returns the URI by which NBD clients name the export `name` here (`nbd://` or `nbd+unix://`).
    pub fn uri(&self, name: &str) -> String {
        let name = percent_encode(name.as_bytes(), ESCAPED);
        match &self.kind {
            SocketKind::Unix { path, .. } => {
                let socket = percent_encode(path.as_os_str().as_bytes(), ESCAPED);
                format!("nbd+unix:///{name}?socket={socket}")
            }
            SocketKind::Tcp(_) => match self.address() {
                Some(address) => format!("nbd://{address}/{name}"),
                None => format!("nbd:///{name}"),
            },
        }
    }

    /// The next client, if one waits.
    pub(crate) fn accept(&self) -> io::Result<Option<ClientStream>> {
        let accepted = match &self.kind {
            SocketKind::Unix { listener, .. } => listener.accept().map(|(stream, _)| ClientStream::Unix(stream)),
            SocketKind::Tcp(listener) => listener.accept().map(|(stream, _)| ClientStream::Tcp(stream)),
        };
        match accepted {
            Ok(stream) => {
                stream.prepare()?;
                Ok(Some(stream))
            }
            // A client may have gone between the event that announced it and this call.
            Err(error) if waits(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns true if this is a socket without a listener. A connection to any other file is refused, too.
fn is_abandoned(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refuses = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refuses)
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        if let SocketKind::Unix { path, is_ours: true, .. } = &self.kind {
            // The path may be somebody else's by now; removing it twice does no harm.
            drop(std::fs::remove_file(path));
        }
    }
}

impl AsFd for SocketListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            SocketKind::Unix { listener, .. } => listener.as_fd(),
            SocketKind::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl fmt::Display for SocketListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            SocketKind::Unix { path, .. } => write!(f, "{}", path.display()),
            SocketKind::Tcp(_) => match self.address() {
                Some(address) => write!(f, "{address}"),
                None => f.write_str("a TCP socket"),
            },
        }
    }
}

/// A client's socket.
#[derive(Debug)]
pub(crate) enum ClientStream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl ClientStream {
    fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                // Nagle's algorithm would hold back a small reply until the one before it is acknowledged.
                stream.set_nodelay(true)
            }
        }
    }

    /// Reads what there is, into `bytes`; none if there is nothing so far.
    pub(crate) fn receive(&mut self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        let read = match self {
            Self::Unix(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
        };
        later(read)
    }

    /// Writes what there is room for; none if there is no room so far.
    pub(crate) fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let written = match self {
            Self::Unix(stream) => stream.write_vectored(slices),
            Self::Tcp(stream) => stream.write_vectored(slices),
        };
        later(written)
    }
}

impl AsFd for ClientStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

fn later(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if waits(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true if the call is only to be made again later.
fn waits(error: &io::Error) -> bool {
    // An aborted connection was the client's doing: the listener is fine.
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted)
}
