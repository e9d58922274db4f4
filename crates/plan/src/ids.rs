//! Names of what an engine and its controller speak about: operations, their steps, fragments of
//! requests, timers.

use std::fmt;

/// An operation's place in the table. Places are used again after
/// [`Event::OpDone`](crate::Event::OpDone).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u32);

impl OpId {
    /// The operation's place as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A step's place in its operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepNo(pub u8);

impl fmt::Display for StepNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StepNo {
    /// The step's place as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A fragment's place in the engine's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FragId(pub u32);

impl FragId {
    /// The fragment's place as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names the layer that waits for a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerOwner {
    /// The array.
    Array,
    /// Is the cache on the array.
    Above,
    /// Is a layer around both.
    Around,
}

/// A timer: the number is its owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId {
    /// Whose it is.
    pub owner: TimerOwner,
    /// Numbers the timer among its owner's.
    pub number: u32,
}
