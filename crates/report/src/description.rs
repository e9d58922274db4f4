//! Describes a trace, as `destage trace stat` does.

use destage_plan::PageGeometry;
use destage_sim::measure::{LatencyHistogram, LatencySummary, TraceLocality, TraceStatResult, VolumeTrafficResult};
use destage_trace::{
    LATENCY_UNKNOWN, LocalityCollector, LocalityOf, LocalitySummary, Nanos, TooManyPages, TraceError, TraceSource,
    TraceStat, TraceSummary, VolumeStat, VolumeTraffic,
};
use serde_json::{Value, json};

/// Squares of longer latencies could not be summed.
const MAX_LATENCY: Nanos = Nanos(1 << 44);

/// Describes a trace.
#[derive(Clone, Debug)]
pub struct TraceDescription {
    /// The trace as the user named it.
    pub file: String,
    /// Names the format.
    pub format: &'static str,
    /// Holds the statistics.
    pub summary: TraceSummary,
    /// Lists the traffic of each volume, the one with most traffic first. Names are the trace's, or, where it
    /// has none, the numbers that `sim --volumes` takes.
    pub volumes: Vec<(String, VolumeTraffic)>,
    /// The latencies that the trace holds, where it holds any.
    pub latencies: Option<LatencySummary>,
    /// Reuse distances and the fill of blocks, if they were asked for.
    pub locality: Option<LocalitySummary>,
}

/// Why a trace could not be described.
#[derive(Debug, thiserror::Error)]
pub enum DescriptionError {
    /// Fails if the trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Fails if the trace touches too much for its locality.
    #[error("{file}: --locality: {error}")]
    Locality {
        /// The trace.
        file: String,
        /// Why.
        error: TooManyPages,
    },
    /// A latency that it holds is none.
    #[error("{file}: a request took {seconds} s; more than 4 hours cannot be right")]
    Latency {
        /// The trace.
        file: String,
        /// Holds the time taken in seconds.
        seconds: u64,
    },
}

impl TraceDescription {
    /// Reads the trace, which the user named `file` and which is in this format, to its end, and describes it in pages of this geometry.
    ///
    /// # Errors
    /// Fails where it cannot be read, or what it holds cannot be told.
    pub fn of(
        file: &str,
        format: &'static str,
        trace: &mut dyn TraceSource,
        geometry: PageGeometry,
        locality: Option<LocalityOf>,
    ) -> Result<Self, DescriptionError> {
        let (mut stat, mut volumes) = (TraceStat::new(geometry), VolumeStat::default());
        let mut known = LatencyHistogram::default();
        let mut locality = locality.map(|of| LocalityCollector::new(geometry, of));
        let (mut batch, mut latencies) = (Vec::new(), Vec::new());
        loop {
            trace.next_batch(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            stat.feed(&batch);
            volumes.feed(&batch);
            trace.latencies(&mut latencies)?;
            for &latency in latencies.iter().filter(|&&latency| latency != LATENCY_UNKNOWN) {
                if latency > MAX_LATENCY {
                    let seconds = latency.0 / 1_000_000_000;
                    return Err(DescriptionError::Latency { file: file.to_owned(), seconds });
                }
                known.record(latency);
            }
            if let Some(locality) = &mut locality {
                let failed = |error| DescriptionError::Locality { file: file.to_owned(), error };
                locality.feed(&batch).map_err(failed)?;
            }
        }
        Ok(Self {
            file: file.to_owned(),
            format,
            summary: stat.finish(),
            volumes: named(volumes.finish(), trace.volume_names()),
            latencies: known.summary(),
            locality: locality.map(LocalityCollector::finish),
        })
    }

    /// A volume's part of all bytes read and written; none of nothing.
    pub fn traffic_share(&self, of: &VolumeTraffic) -> Option<f64> {
        let all = self.summary.read_bytes.saturating_add(self.summary.write_bytes);
        (all > 0).then(|| of.bytes() as f64 / all as f64)
    }

    /// The same as JSON, whose fields `destage schema --trace-stat` explains.
    pub fn as_json(&self) -> Value {
        let by_volume =
            self.volumes.iter().map(|(name, of)| VolumeTrafficResult::new(name, of, self.traffic_share(of)));
        let latencies = self.latencies.clone();
        let stat = TraceStatResult::new(&self.file, self.format, &self.summary, latencies, by_volume.collect());
        let mut value = json!(stat);
        if let Some(locality) = &self.locality {
            value["locality"] = json!(TraceLocality::from(locality));
        }
        value
    }
}

/// The volumes by name.
fn named(volumes: Vec<VolumeTraffic>, names: &[String]) -> Vec<(String, VolumeTraffic)> {
    let name = |of: &VolumeTraffic| names.get(of.volume as usize).cloned().unwrap_or_else(|| of.volume.to_string());
    volumes.into_iter().map(|of| (name(&of), of)).collect()
}
