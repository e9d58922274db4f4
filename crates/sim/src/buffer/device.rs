//! Abstracts the device that a run charges with reads and programs: an SSD, or none.

use destage_plan::{Element, Nanos, PageNo};
use destage_policy::buffer::{DeviceView, NoDevice};

use crate::ssd::Ssd;

/// A device below the buffer.
pub(super) trait BufferDevice: DeviceView + Send {
    /// Is true if operations take time; if not, response times are not computed.
    const TIMED: bool;
    fn set_now(&mut self, now: Nanos);
    /// Begins a host command, for devices that tell commands from pages.
    #[inline]
    fn begin_command(&mut self) {}
    fn read(&mut self, now: Nanos, page: PageNo) -> Nanos;
    /// Reads what an operation on this page looks at first, and returns anything made of it: see
    /// [`Buffer::prefetch`].
    #[inline]
    fn prefetch(&self, _page: PageNo) -> u32 {
        0
    }
    /// Programs a page, through this channel if one was chosen.
    fn program(&mut self, now: Nanos, page: PageNo, channel: Option<u16>) -> Nanos;
    fn trim(&mut self, page: PageNo);
    fn reset_counters(&mut self);
    /// The element that would program the page.
    fn target(&self, page: PageNo, channel: Option<u16>) -> Element;
    /// Chooses the channel for a page that is programmed later and for which none was chosen.
    fn turn(&mut self) -> Option<u16>;
    /// Until when an element is busy.
    fn busy_until(&self, element: Element) -> Nanos;
    /// Is true if the latest operation on this page waited for a collection. The operation was issued at `at`
    /// and done at `done`.
    fn waited_for_gc(&self, page: PageNo, at: Nanos, done: Nanos) -> bool;
    /// Remembers collections until they are forgotten by `end_collection`.
    fn watch_collections(&mut self);
    /// The first end of a collection that was not forgotten, with its element; see [`Ssd::first_collection_end`].
    fn first_collection_end(&mut self) -> Option<(Nanos, Element)>;
    /// Forgets the element's first collection.
    fn end_collection(&mut self, element: Element);
    /// The device as an SSD, if it is one.
    fn ssd(&self) -> Option<&Ssd>;
}

impl BufferDevice for NoDevice {
    const TIMED: bool = false;
    fn set_now(&mut self, _now: Nanos) {}
    fn read(&mut self, now: Nanos, _page: PageNo) -> Nanos {
        now
    }
    fn program(&mut self, now: Nanos, _page: PageNo, _channel: Option<u16>) -> Nanos {
        now
    }
    fn trim(&mut self, _page: PageNo) {}
    fn reset_counters(&mut self) {}
    fn target(&self, _page: PageNo, _channel: Option<u16>) -> Element {
        Element(0)
    }
    fn turn(&mut self) -> Option<u16> {
        None
    }
    fn busy_until(&self, _element: Element) -> Nanos {
        Nanos::ZERO
    }
    fn waited_for_gc(&self, _page: PageNo, _at: Nanos, _done: Nanos) -> bool {
        false
    }
    fn watch_collections(&mut self) {}
    fn first_collection_end(&mut self) -> Option<(Nanos, Element)> {
        None
    }
    fn end_collection(&mut self, _element: Element) {}
    fn ssd(&self) -> Option<&Ssd> {
        None
    }
}

impl BufferDevice for Ssd {
    const TIMED: bool = true;
    #[inline]
    fn set_now(&mut self, now: Nanos) {
        Self::set_now(self, now);
    }
    #[inline]
    fn begin_command(&mut self) {
        Self::begin_command(self);
    }
    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        Self::prefetch(self, page)
    }
    #[inline]
    fn read(&mut self, now: Nanos, page: PageNo) -> Nanos {
        Self::read(self, now, page)
    }
    #[inline]
    fn program(&mut self, now: Nanos, page: PageNo, channel: Option<u16>) -> Nanos {
        match channel {
            None => Self::program(self, now, page),
            Some(channel) => self.program_through(now, page, channel.into()),
        }
    }
    fn trim(&mut self, page: PageNo) {
        Self::trim(self, page);
    }
    fn reset_counters(&mut self) {
        Self::reset_counters(self);
    }
    fn target(&self, page: PageNo, channel: Option<u16>) -> Element {
        Self::target(self, page, channel)
    }
    fn turn(&mut self) -> Option<u16> {
        Self::turn(self)
    }
    fn busy_until(&self, element: Element) -> Nanos {
        Self::busy_until(self, element)
    }
    #[inline]
    fn waited_for_gc(&self, page: PageNo, at: Nanos, done: Nanos) -> bool {
        Self::waited_for_gc(self, page, at, done)
    }
    fn watch_collections(&mut self) {
        Self::watch_collections(self);
    }
    fn first_collection_end(&mut self) -> Option<(Nanos, Element)> {
        Self::first_collection_end(self)
    }
    fn end_collection(&mut self, element: Element) {
        Self::end_collection(self, element);
    }
    fn ssd(&self) -> Option<&Ssd> {
        Some(self)
    }
}
