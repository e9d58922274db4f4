//! What keeps the NVRAM and the intents.
//!
//! Steps take effect in the order of issue: each is durable before the next begins. Intents that
//! follow each other are made durable together: rows do not depend on each other, and the changes
//! of one row are in order.

use std::collections::VecDeque;
use std::io;

use destage_plan::{Issue, NvPut, NvSlot, Rows};

use super::intents::IntentsFile;
use super::lane::Worker;
use super::nvram::NvramFile;
use crate::Handle;

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// Puts what the command's puts say, with its bytes one after the other, and frees its slots.
    Commit,
    /// Sets or clears the intents of the rows of the command.
    Intent { set: bool },
}

/// A step of the NVRAM with all that it needs.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) issue: Issue,
    pub(super) change: Change,
    pub(super) bytes: Handle,
    pub(super) lists: Lists,
}

/// Lists that travel with a step, to be used again.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) puts: Vec<NvPut>,
    pub(super) frees: Vec<NvSlot>,
    pub(super) rows: Vec<Rows>,
}

/// A command that is done, and how it ended.
pub(super) type Done = (Command, io::Result<()>);

/// The two files.
pub(super) struct Store {
    nvram: NvramFile,
    intents: IntentsFile,
    /// A step failed. Nothing more is done then: a later step must not be durable without the
    /// earlier one, nor may a later success be taken for the earlier one's.
    broken: bool,
    /// Intents that are made durable together.
    waiting: Vec<Command>,
}

impl Store {
    /// Serves these two.
    pub(super) const fn new(nvram: NvramFile, intents: IntentsFile) -> Self {
        Self { nvram, intents, broken: false, waiting: Vec::new() }
    }
}

impl Worker for Store {
    type Command = Command;
    type Done = Done;

    const MOST: usize = usize::MAX;

    fn work(&mut self, commands: &mut VecDeque<Command>, done: &mut dyn FnMut(Done)) {
        while let Some(command) = commands.pop_front() {
            if self.broken {
                done((command, Err(after_error())));
                continue;
            }
            if let Change::Intent { set } = command.change {
                for rows in &command.lists.rows {
                    self.intents.set(*rows, set);
                }
                self.waiting.push(command);
                if matches!(commands.front(), Some(Command { change: Change::Intent { .. }, .. })) {
                    continue;
                }
                let mut error = self.intents.sync().err();
                self.broken = error.is_some();
                for command in self.waiting.drain(..) {
                    let failed = self.broken.then(|| error.take().unwrap_or_else(after_error));
                    done((command, failed.map_or(Ok(()), Err)));
                }
                continue;
            }
            let lists = &command.lists;
            let changed = self.nvram.commit(&lists.puts, &command.bytes, &lists.frees);
            self.broken = changed.is_err();
            done((command, changed));
        }
    }
}

fn after_error() -> io::Error {
    io::Error::other("an earlier step of the NVRAM failed")
}
