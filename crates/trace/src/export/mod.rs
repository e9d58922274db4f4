//! Traces in the formats that other simulators and tools read.
//!
//! No format holds all that a request has: kinds, FUA, addresses in bytes, times in nanoseconds
//! that may run backwards, volumes. What a format cannot hold stops the export, which names all of it
//! with the options to give; with those it is left out or changed, and counted. Only the times' resolution is the
//! format's own: times are cut to it, and that is counted too.
//!
//! Memory is constant, but for `oracle-general`, where it is proportional to the different pages.
//!
//! To add a format that is written, give it a file here with a type that implements [`ExportFormat`],
//! what there is to know about it, and [`FormatWriter`](exporter::Writer), what it makes of a request;
//! and add that to the modules and to the list below. It names the format under which it is read
//! again, and has its names.

mod disksim;
mod exporter;
mod fio;
mod fit;
mod msr;
mod oracle_general;
mod refusals;
mod rq_csv;
mod spc;
mod spec;
mod spool;
mod ssdsim;

use crate::formats::FormatId;
use crate::options::{FormatError, FormatOptions};
use exporter::FormatWriter;
pub use exporter::{ExportError, TraceExporter};
pub use fit::ExportReport;
use fit::UserLosses;
pub use refusals::ExportRefusals;
use spec::ExportFormat;
pub use spec::{ExportInfo, ExportSpec};

macro_rules! exports {
    ($($module:ident::$format:ident,)+) => {
        /// All formats that can be written besides the native one, in the order in which they are
        /// listed.
        pub const EXPORTS: &[ExportInfo] = &[$($module::$format::INFO),+];

        /// A format with its own options.
        #[derive(Clone, Debug, PartialEq, Eq)]
        enum AnyWriter {
            $($format($module::$format),)+
        }

        impl AnyWriter {
            /// Takes the options of one of [`EXPORTS`].
            fn take(id: FormatId, options: &mut FormatOptions<'_>, losses: &mut UserLosses) -> Result<Self, FormatError> {
                $(if id == $module::$format::INFO.id {
                    return Ok(Self::$format($module::$format::take(options, losses)?));
                })+
                unreachable!("{id} is not listed")
            }

            fn info(&self) -> &'static ExportInfo {
                match self {
                    $(Self::$format(_) => const { &$module::$format::INFO },)+
                }
            }

            fn options(&self) -> Vec<String> {
                match self {
                    $(Self::$format(format) => format.options(),)+
                }
            }

            fn numbers_volumes(&self) -> bool {
                match self {
                    $(Self::$format(format) => format.numbers_volumes(),)+
                }
            }

            fn merges_volumes(&self) -> bool {
                match self {
                    $(Self::$format(format) => format.merges_volumes(),)+
                }
            }

            fn writer(&self) -> Box<dyn FormatWriter> {
                match self {
                    $(Self::$format(format) => format.writer(),)+
                }
            }
        }
    };
}

exports! {
    ssdsim::Ssdsim,
    disksim::Disksim,
    spc::Spc,
    msr::Msr,
    rq_csv::RqCsv,
    fio::Fio,
    oracle_general::OracleGeneral,
}
