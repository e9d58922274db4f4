//! Measures runs, and defines the form of results.

mod backlog;
mod common;
mod estimate;
mod finding;
mod latency;
mod locality;
mod per_volume;
mod rates;
mod record;
mod request_log;
mod series;
mod shown;
mod trace_stat;
mod variation;
mod wear;

pub(crate) use backlog::growing;
pub use backlog::{RequestBacklog, SaturationCause};
pub use common::{
    InputResult, ParamValue, RecordedSetting, ResultVersion, RunContext, SCHEMA, SizesResult, TraceCharacteristics,
    VERSION,
};
pub use estimate::MeanEstimate;
pub(crate) use finding::percent;
pub use finding::{FindingSeverity, RunFinding};
pub use latency::{LatencyHistogram, LatencySummary, distribution};
pub use locality::{ReuseDistances, StayFill, TraceLocality};
pub(crate) use per_volume::{PerVolume, VolumeFigures, VolumeSlot};
pub use per_volume::{VolumeResponse, VolumeResult};
pub(crate) use rates::{per_second, ratio};
pub use record::{FieldDoc, FigureDoc, field_count, joined_fields, record};
pub(crate) use request_log::PendingLog;
pub use request_log::{LoggedRequest, RequestLog};
pub use series::{BinContent, SeriesBin, TimeSeries};
pub use shown::{BetterValue, ValueFormat};
pub use trace_stat::{TraceStatResult, VolumeTrafficResult};
pub use variation::variation;
pub use wear::WearClass;
