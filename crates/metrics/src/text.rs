//! Writes the metrics as the text of Open Metrics.

use std::fmt::Error;

use destage_engine::ServiceStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::families::{FAMILIES, MetricFamily, MetricKind, SampleValue};

/// Returns a service's metrics as the text of Open Metrics, which ends with `# EOF`.
pub fn open_metrics(status: &ServiceStatus) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(StatusCollector(status.clone())));
    let mut out = String::new();
    // A string takes whatever is written to it.
    text::encode(&mut out, &registry).expect("a string can be written");
    out
}

/// Has each metric encoded from a status.
#[derive(Debug)]
struct StatusCollector(ServiceStatus);

impl Collector for StatusCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        FAMILIES.iter().try_for_each(|family| encode(family, &self.0, &mut encoder))
    }
}

fn encode(family: &MetricFamily, status: &ServiceStatus, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let kind = match family.kind {
        MetricKind::Counter => MetricType::Counter,
        MetricKind::Gauge => MetricType::Gauge,
        MetricKind::Histogram => MetricType::Histogram,
        MetricKind::Info => MetricType::Info,
    };
    let samples = (family.samples)(status);
    if samples.is_empty() {
        return Ok(());
    }
    let unit = family.unit.map(|unit| Unit::Other(unit.to_owned()));
    // The encoder puts the unit behind the name.
    let name = family.unit.and_then(|unit| family.name.strip_suffix(unit)?.strip_suffix('_')).unwrap_or(family.name);
    let mut encoder: MetricEncoder<'_> = encoder.encode_descriptor(name, family.help, unit.as_ref(), kind)?;
    for sample in samples {
        let labels: Vec<(&str, &str)> = sample.labels.iter().map(|(name, value)| (*name, &**value)).collect();
        if family.kind == MetricKind::Info {
            encoder.encode_info(&labels)?;
            continue;
        }
        let mut of_labels = encoder.encode_family(&labels)?;
        match (sample.value, family.kind) {
            (SampleValue::Whole(value), MetricKind::Counter) => {
                of_labels.encode_counter::<NoLabelSet, u64, u64>(&value, None)?;
            }
            (SampleValue::Real(value), MetricKind::Counter) => {
                of_labels.encode_counter::<NoLabelSet, f64, u64>(&value, None)?;
            }
            (SampleValue::Whole(value), _) => of_labels.encode_gauge(&value)?,
            (SampleValue::Real(value), _) => of_labels.encode_gauge(&value)?,
            (SampleValue::Times(times), _) => {
                let count = times.buckets.iter().map(|(_, count)| count).sum();
                of_labels.encode_histogram::<NoLabelSet>(times.sum, count, &times.buckets, None)?;
            }
        }
    }
    Ok(())
}
