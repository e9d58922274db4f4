//! The block events that a recording is made of.

use crate::layout::{EventField, EventLayout, LayoutError};
use crate::page::PageEvent;
use crate::rwbs::RwbsFlags;

/// Names the step of a request that an event tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStep {
    /// Tells that the request was issued to the device, or, in a recording of what was asked, queued.
    Begin,
    /// Tells that the request, or a piece of it, is complete.
    Complete,
    /// The device did not take it; it will be issued again.
    Requeue,
    /// Tells that the request was not to wait and would have had to: its owner was told to ask again.
    Retract,
}

/// The error of a request that was not to wait and would have had to.
const AGAIN: i64 = -(rustix::io::Errno::AGAIN.raw_os_error() as i64);

/// A block event of any device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEvent {
    /// Nanoseconds of the trace clock.
    pub time: u64,
    /// Names the step.
    pub step: RequestStep,
    /// The device as the kernel numbers it inside: `major << 20 | minor`.
    pub dev: u32,
    /// First sector of 512 B on the disk (not the partition); `u64::MAX` for completed flushes.
    pub sector: u64,
    /// Sectors of 512 B.
    pub sectors: u32,
    /// Holds the flags of the request; `None` if the letters are not known.
    pub asked: Option<RwbsFlags>,
    /// Is true of a completion with an error.
    pub failed: bool,
}

struct FieldLayout {
    id: u64,
    step: RequestStep,
    /// Is true of an event of the block layer's caller, not of the device.
    of_bio: bool,
    dev: EventField,
    sector: EventField,
    sectors: EventField,
    rwbs: EventField,
    error: Option<EventField>,
}

/// Holds the places of the fields of the recorded events.
pub struct EventLayouts {
    common_type: EventField,
    layouts: Vec<FieldLayout>,
}

impl EventLayouts {
    /// From the descriptions of the recorded kinds and what each means.
    ///
    /// # Errors
    /// If one lacks a field, or has it in a size that makes no sense.
    pub fn new(events: &[(EventLayout, RequestStep)]) -> Result<Self, LayoutError> {
        let mut common_type = None;
        let mut layouts = vec![];
        for (event, step) in events {
            // The place of the type is the same in every event of a kernel.
            common_type = Some(event.field("common_type", &[1, 2, 4, 8])?);
            layouts.push(FieldLayout {
                id: event.id,
                step: *step,
                of_bio: event.name.starts_with("block_bio_"),
                dev: event.field("dev", &[4])?,
                sector: event.field("sector", &[4, 8])?,
                sectors: event.field("nr_sector", &[4])?,
                rwbs: event.field("rwbs", &[])?,
                // Some kernels have no such field; a completion without one counts as good.
                error: if *step == RequestStep::Complete { event.field("error", &[1, 2, 4, 8]).ok() } else { None },
            });
        }
        let common_type = common_type.ok_or_else(|| LayoutError::new("events", "there is none to record"))?;
        Ok(Self { common_type, layouts })
    }

    /// Understands an event; `None` if it is of another kind, or too short for its kind.
    #[must_use]
    pub fn decode(&self, event: &PageEvent<'_>) -> Option<BlockEvent> {
        let data = event.data;
        let id = self.common_type.number(data)?;
        let layout = self.layouts.iter().find(|layout| layout.id == id)?;
        let error = layout.error.as_ref().and_then(|field| field.signed_number(data)).unwrap_or(0);
        // An `EAGAIN` to the caller of a request that was not to wait: the device never saw it.
        let retracts = layout.of_bio && layout.step == RequestStep::Complete && error == AGAIN;
        Some(BlockEvent {
            time: event.time,
            step: if retracts { RequestStep::Retract } else { layout.step },
            dev: layout.dev.number(data)? as u32,
            sector: layout.sector.number(data)?,
            sectors: layout.sectors.number(data)? as u32,
            asked: RwbsFlags::parse(layout.rwbs.bytes(data)?),
            failed: error != 0,
        })
    }
}
