//! Describes the exports of a server, their features and their block sizes.

use thiserror::Error;

use crate::wire::{STRING_BYTES, transmission};

/// Contexts that an export may have at most.
pub const CONTEXTS: usize = 32;

/// Bytes that a read in one piece may have whatever the maximum is.
const WHOLE_READ: u32 = 1 << 16;

/// Tells what is wrong with an export.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExportError {
    /// A name or description that cannot be sent.
    #[error("the {what} \"{text}\" is not text of at most 4096 bytes without NUL")]
    Text {
        /// Names the text.
        what: &'static str,
        /// Holds the beginning of the text.
        text: String,
    },
    /// Two have one name.
    #[error("there are two exports \"{0}\"")]
    Twice(String),
    /// The default is none of them.
    #[error("the default export \"{0}\" is none of the exports")]
    NoDefault(String),
    /// The smallest block.
    #[error("export \"{name}\": a minimum block size of {size} B; it is a power of 2 up to 65536")]
    Minimum {
        /// Of this export.
        name: String,
        /// Bytes.
        size: u32,
    },
    /// The preferred block.
    #[error("export \"{name}\": a preferred block size of {size} B; it is a power of 2 from {least} up")]
    Preferred {
        /// Of this export.
        name: String,
        /// Bytes.
        size: u32,
        /// Bytes: 512, or the minimum block size.
        least: u32,
    },
    /// The longest payload.
    #[error("export \"{name}\": payloads of at most {size} B; {least} have to be allowed")]
    Maximum {
        /// Of this export.
        name: String,
        /// Bytes.
        size: u32,
        /// Bytes: the preferred block size, or 64 KiB.
        least: u32,
    },
    /// The end cannot be reached.
    #[error("export \"{name}\": {size} B are no multiple of the minimum block size, {minimum} B")]
    Size {
        /// Of this export.
        name: String,
        /// Bytes.
        size: u64,
        /// Bytes.
        minimum: u32,
    },
    /// Tells that a feature is offered without the one that it needs.
    #[error("export \"{0}\": fast zeroes are offered without zeroes")]
    FastZero(String),
    /// A context's name.
    #[error("export \"{name}\": the context \"{context}\" is not NAMESPACE:NAME, or stands there twice")]
    Context {
        /// Of this export.
        name: String,
        /// Holds the name of the context.
        context: String,
    },
    /// Tells that there are too many contexts.
    #[error("export \"{0}\": more than {CONTEXTS} contexts")]
    Contexts(String),
}

/// Lists the features of an export, which clients may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportFeatures {
    /// Is true if the export can only be read. Requests that change it are refused, and not offered.
    pub read_only: bool,
    /// Flushes.
    pub flush: bool,
    /// Requests that are answered when durable.
    pub fua: bool,
    /// Is true if access out of order is slow, as on a disk.
    pub rotational: bool,
    /// Trims.
    pub trim: bool,
    /// Writes of zeroes, also with `NO_HOLE`.
    pub write_zeroes: bool,
    /// Writes of zeroes only if that is fast.
    pub fast_zero: bool,
    /// A flush on one connection is one for all of them.
    pub multi_conn: bool,
    /// Requests to make ready what is read next.
    pub cache: bool,
}

impl ExportFeatures {
    /// Returns the features that hold: a read-only export has none that change it.
    #[must_use]
    pub(crate) const fn effective(self) -> Self {
        // An export that is read-only would refuse these commands, so it does not offer them.
        let zeroes = self.write_zeroes && !self.read_only;
        Self { trim: self.trim && !self.read_only, write_zeroes: zeroes, fast_zero: self.fast_zero && zeroes, ..self }
    }

    /// The flags that tell of it. With structured replies reads in one piece are among it.
    pub fn flags(self, structured: bool) -> u16 {
        let of = self.effective();
        [
            // The protocol wants this flag always set.
            (true, transmission::HAS_FLAGS),
            (of.read_only, transmission::READ_ONLY),
            (of.flush, transmission::SEND_FLUSH),
            (of.fua, transmission::SEND_FUA),
            (of.rotational, transmission::ROTATIONAL),
            (of.trim, transmission::SEND_TRIM),
            (of.write_zeroes, transmission::SEND_WRITE_ZEROES),
            // DF makes sense only where a reply may have several chunks.
            (structured, transmission::SEND_DF),
            (of.multi_conn, transmission::CAN_MULTI_CONN),
            (of.cache, transmission::SEND_CACHE),
            (of.fast_zero, transmission::SEND_FAST_ZERO),
        ]
        .into_iter()
        .fold(0, |flags, (set, flag)| if set { flags | flag } else { flags })
    }

    /// Decodes transmission flags; unknown ones are ignored.
    pub fn of_flags(flags: u16) -> Self {
        let has = |flag: u16| flags & flag != 0;
        Self {
            read_only: has(transmission::READ_ONLY),
            flush: has(transmission::SEND_FLUSH),
            fua: has(transmission::SEND_FUA),
            rotational: has(transmission::ROTATIONAL),
            trim: has(transmission::SEND_TRIM),
            write_zeroes: has(transmission::SEND_WRITE_ZEROES),
            fast_zero: has(transmission::SEND_FAST_ZERO),
            multi_conn: has(transmission::CAN_MULTI_CONN),
            cache: has(transmission::SEND_CACHE),
        }
    }
}

/// In which sizes an export is read and written, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it: a power of 2, at most 64 KiB.
    pub minimum: u32,
    /// Holds the preferred block size: requests in multiples of it are fast. A power of 2, at least 512.
    pub preferred: u32,
    /// The longest payload of a request or a reply, at least 64 KiB.
    pub maximum: u32,
}

impl BlockSizes {
    /// Returns true if the protocol allows these sizes.
    pub(crate) const fn are_valid(self) -> bool {
        let Self { minimum, preferred, maximum } = self;
        // The rules are those that the protocol has for `NBD_INFO_BLOCK_SIZE`.
        let least = if minimum > 512 { minimum } else { 512 };
        minimum.is_power_of_two()
            && minimum <= 1 << 16
            && preferred.is_power_of_two()
            && preferred >= least
            && maximum >= preferred
    }
}

/// Returns the sizes that hold where none were negotiated: 1 B, 4 KiB and 32 MiB.
impl Default for BlockSizes {
    fn default() -> Self {
        // These are the protocol's sizes where none are agreed on. Clients keep to 32 MiB to work with most
        // servers.
        Self { minimum: 1, preferred: 4096, maximum: 1 << 25 }
    }
}

/// Something that clients can use under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdExport {
    /// Holds the name.
    pub name: String,
    /// Describes the export for people; may be empty.
    pub description: String,
    /// Bytes: a multiple of the minimum block size.
    pub size: u64,
    /// Lists the features.
    pub features: ExportFeatures,
    /// In which sizes.
    pub blocks: BlockSizes,
    /// Clients that do not ask for the block sizes are turned away. Without this their requests
    /// are refused where they are not aligned.
    pub insists_on_blocks: bool,
    /// Contexts of block status, as `base:allocation`; at most [`CONTEXTS`].
    pub contexts: Vec<String>,
}

impl NbdExport {
    /// One of so many bytes that can do nothing but be read and written, in blocks of any size.
    pub fn new(name: impl Into<String>, size: u64) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            size,
            features: ExportFeatures::default(),
            blocks: BlockSizes::default(),
            insists_on_blocks: false,
            contexts: Vec::new(),
        }
    }

    fn check(&self) -> Result<(), ExportError> {
        let name = || self.name.clone();
        check_text("name of an export", &self.name)?;
        check_text("description of an export", &self.description)?;
        let BlockSizes { minimum, preferred, maximum } = self.blocks;
        if !minimum.is_power_of_two() || minimum > 1 << 16 {
            return Err(ExportError::Minimum { name: name(), size: minimum });
        }
        let least = minimum.max(512);
        if !preferred.is_power_of_two() || preferred < least {
            return Err(ExportError::Preferred { name: name(), size: preferred, least });
        }
        let least = preferred.max(WHOLE_READ);
        if maximum < least {
            return Err(ExportError::Maximum { name: name(), size: maximum, least });
        }
        // The last part of a block could not be reached by any request.
        if !self.size.is_multiple_of(u64::from(minimum)) {
            return Err(ExportError::Size { name: name(), size: self.size, minimum });
        }
        // The protocol forbids FAST_ZERO without WRITE_ZEROES.
        if self.features.fast_zero && !self.features.write_zeroes {
            return Err(ExportError::FastZero(name()));
        }
        if self.contexts.len() > CONTEXTS {
            return Err(ExportError::Contexts(name()));
        }
        for (at, context) in self.contexts.iter().enumerate() {
            check_text("name of a context", context)?;
            let fine = is_full_context(context) && !self.contexts[..at].contains(context);
            if !fine {
                return Err(ExportError::Context { name: name(), context: context.clone() });
            }
        }
        Ok(())
    }
}

/// Returns true if a context has a namespace of printable characters, and a name.
fn is_full_context(context: &str) -> bool {
    context.split_once(':').is_some_and(|(space, leaf)| {
        let printable = |c: char| !c.is_whitespace() && !c.is_control();
        !space.is_empty() && space.chars().all(printable) && !leaf.is_empty()
    })
}

fn check_text(what: &'static str, text: &str) -> Result<(), ExportError> {
    if text.len() > STRING_BYTES || text.contains('\0') {
        // A long text would fill the message that explains it.
        return Err(ExportError::Text { what, text: text.chars().take(40).collect() });
    }
    Ok(())
}

/// All exports of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportList {
    all: Vec<NbdExport>,
    default: Option<usize>,
}

impl ExportList {
    /// These exports; clients that name none get the one of the name `default`, or that whose name
    /// is empty.
    pub fn new(all: Vec<NbdExport>, default: Option<&str>) -> Result<Self, ExportError> {
        for (at, export) in all.iter().enumerate() {
            export.check()?;
            if all[..at].iter().any(|other| other.name == export.name) {
                return Err(ExportError::Twice(export.name.clone()));
            }
        }
        let at = |name: &str| all.iter().position(|export| export.name == name);
        let default = match default {
            Some(name) => Some(at(name).ok_or_else(|| ExportError::NoDefault(name.to_owned()))?),
            None => at(""),
        };
        Ok(Self { all, default })
    }

    /// All, in the order given.
    pub fn all(&self) -> &[NbdExport] {
        &self.all
    }

    /// The number of the export that a client means.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        let named = self.all.iter().position(|export| export.name.as_bytes() == name);
        // The empty name stands for the default export.
        named.or_else(|| self.default.filter(|_| name.is_empty()))
    }
}
