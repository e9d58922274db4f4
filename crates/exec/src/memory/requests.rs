//! Takes what a host, an operator and devices say, and tells what became of requests.

use destage_plan::{Control, Controller, Dev, HostNotice, HostOp, HostRequest, PageReport, RangeError};

use super::executor::MemoryExecutor;

impl<C: Controller> MemoryExecutor<C> {
    /// Takes a request. `data` holds the bytes of a write.
    ///
    /// # Panics
    /// Panics if a write's data is not as long as the request says.
    pub fn submit(&mut self, request: HostRequest, data: &[u8]) -> Result<(), RangeError> {
        // Checked before any bytes are kept: a refused request must leave no
        // bytes.
        self.engine.shape().check(request.offset, request.len)?;
        match request.op {
            HostOp::Write => {
                assert_eq!(data.len() as u64, request.len, "a write brings its data");
                self.bytes.host(request.tag, data);
            }
            HostOp::Read => self.bytes.host_room(request.tag, request.len as usize),
            HostOp::WriteZeroes | HostOp::WriteZeroesUnmap | HostOp::Discard | HostOp::Flush => {}
        }
        self.note(|| format!("submit {request:?}"));
        self.pending.submit(request);
        self.engine.submit(self.now, request)?;
        self.take_issues();
        Ok(())
    }

    /// Gives the controller an order.
    pub fn control(&mut self, control: Control) {
        self.note(|| format!("{control:?}"));
        self.engine.control(self.now, control);
        self.take_issues();
    }

    /// Takes the next report of what became of a page that a device could not read.
    pub fn next_report(&mut self) -> Option<PageReport> {
        self.engine.next_report()
    }

    /// Returns the next event of a request.
    /// A request's bytes are there until the call after the one that returns `Released`.
    pub fn next_notice(&mut self) -> Option<HostNotice> {
        // One call later, so that the caller can still look at the bytes.
        if let Some(tag) = self.released.take() {
            self.bytes.release(tag);
        }
        let notice = self.say()?;
        if let HostNotice::Released { tag } = notice {
            self.released = Some(tag);
        } else {
            self.note(|| format!("{notice:?}"));
        }
        Some(notice)
    }

    /// Begins or ends a collection of so many blocks in a part of a device.
    ///
    /// # Panics
    /// Panics if the device is no collector.
    pub fn device_gc(&mut self, dev: Dev, unit: u16, on: bool, blocks: u32) {
        assert!(self.collectors.contains(dev), "{dev} does not collect");
        self.note(|| format!("{dev}.{unit} {} {blocks} blocks", if on { "collects" } else { "has collected" }));
        self.engine.device_gc(self.now, dev, unit, on, blocks);
        self.take_issues();
    }

    /// Reports that a device will have to collect soon.
    ///
    /// # Panics
    /// Panics if the device is no collector.
    pub fn device_near_gc(&mut self, dev: Dev) {
        assert!(self.collectors.contains(dev), "{dev} does not collect");
        self.note(|| format!("{dev} has to collect soon"));
        self.engine.device_near_gc(self.now, dev);
        self.take_issues();
    }
}
