//! Defines how the kernel's block device is started, stopped and removed: by the ublk driver, or by a model of it in tests.

use std::path::PathBuf;

use destage_ublk::{UblkDevice, UblkError};

/// Gives a block device's orders to the kernel. All but its name may wait for requests to be answered.
pub trait DeviceControl: Send {
    /// Returns the block device.
    fn path(&self) -> PathBuf;
    /// Returns true if it goes on after its last server ended.
    fn resumes(&self) -> bool;
    /// Returns true if its requests wait for another server when this one ends.
    fn outlives_server(&self) -> bool;
    /// Has it appear, or go on.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn start(&mut self) -> Result<(), UblkError>;
    /// Has it disappear, if nobody uses it; what the kernel's memory has of it is written first.
    ///
    /// # Errors
    /// If somebody uses it, or the kernel refuses.
    fn stop(&mut self) -> Result<(), UblkError>;
    /// Removes it, whose queue is closed.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn remove(&mut self) -> Result<(), UblkError>;
}

impl DeviceControl for UblkDevice {
    fn path(&self) -> PathBuf {
        self.path()
    }

    fn resumes(&self) -> bool {
        self.resumes()
    }

    fn outlives_server(&self) -> bool {
        self.outlives_server()
    }

    fn start(&mut self) -> Result<(), UblkError> {
        self.start()
    }

    fn stop(&mut self) -> Result<(), UblkError> {
        self.stop()
    }

    fn remove(&mut self) -> Result<(), UblkError> {
        self.remove()
    }
}
