//! The thread that keeps the NVRAM and the intents.
//!
//! Steps take effect in the order of issue: each is durable before the next begins. Intents that
//! follow each other are made durable together: rows do not depend on each other, and the changes
//! of one row are in order.

use std::collections::VecDeque;
use std::io;

use destage_plan::{Issue, NvSlot, Rows, Tag};

use super::intents::IntentsFile;
use super::nvram::NvramFile;
use super::port::Port;

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// Puts a tag, and the bytes of the command if they are a page.
    Put { slot: NvSlot, tag: Tag, page: bool },
    /// Frees the slots of the command.
    Free,
    /// Sets or clears the intents of the rows of the command.
    Intent { set: bool },
}

/// A step of the NVRAM with all that it needs.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) issue: Issue,
    pub(super) change: Change,
    pub(super) bytes: Vec<u8>,
    pub(super) lists: Lists,
}

/// Lists that travel with a step, to be used again.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) slots: Vec<NvSlot>,
    pub(super) rows: Vec<Rows>,
}

/// A command that is done, and how it ended.
pub(super) type Done = (Command, io::Result<()>);

/// The two files.
pub(super) struct Store {
    pub(super) nvram: NvramFile,
    pub(super) intents: IntentsFile,
}

impl Store {
    /// Serves a port until it is closed. After an error nothing more is done: a later step must not
    /// be durable without the earlier one.
    pub(super) fn serve(mut self, port: &Port<Command, Done>) {
        let mut batch = VecDeque::new();
        let mut waiting: Vec<Command> = Vec::new();
        let mut broken = false;
        loop {
            port.take(usize::MAX, &mut batch);
            if batch.is_empty() {
                return;
            }
            while let Some(command) = batch.pop_front() {
                if broken {
                    port.finish([(command, Err(after_error()))]);
                    continue;
                }
                if let Change::Intent { set } = command.change {
                    for rows in &command.lists.rows {
                        self.intents.set(*rows, set);
                    }
                    waiting.push(command);
                    if matches!(batch.front(), Some(Command { change: Change::Intent { .. }, .. })) {
                        continue;
                    }
                    let mut error = self.intents.sync().err();
                    broken = error.is_some();
                    let done = |command| {
                        (command, if broken { Err(error.take().unwrap_or_else(after_error)) } else { Ok(()) })
                    };
                    port.finish(waiting.drain(..).map(done));
                    continue;
                }
                let done = match command.change {
                    Change::Put { slot, tag, page } => {
                        self.nvram.put(slot, tag, page.then_some(command.bytes.as_slice()))
                    }
                    _ => self.nvram.free(&command.lists.slots),
                };
                broken = done.is_err();
                port.finish([(command, done)]);
            }
        }
    }
}

fn after_error() -> io::Error {
    io::Error::other("an earlier step of the NVRAM failed")
}
