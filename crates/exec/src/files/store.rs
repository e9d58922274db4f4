//! What keeps the NVRAM and the intents.
//!
//! Steps take effect in the order of issue: each is durable before the next begins. What waits and follows each other is
//! made durable together, by one sync: intents, since rows do not depend on each other and the changes of one row are in
//! order; and commits, which become one, so that after a cut there are all of them or none.

use std::collections::VecDeque;
use std::io;

use destage_plan::{Issue, NvPut, NvSlot, Rows};

use super::intents::IntentsFile;
use super::lane::Worker;
use super::nvram::{Commit, NvramFile};
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
    /// Commands that are made durable together.
    group: Vec<Command>,
}

impl Store {
    /// Serves these two.
    pub(super) const fn new(nvram: NvramFile, intents: IntentsFile) -> Self {
        Self { nvram, intents, broken: false, group: Vec::new() }
    }

    /// Takes the first commands for as long as they can be made durable together.
    fn gather(&mut self, commands: &mut VecDeque<Command>) {
        let alike = commands.front().map(|first| matches!(first.change, Change::Commit));
        let mut slots = self.nvram.group();
        while let Some(next) = commands.front()
            && Some(matches!(next.change, Change::Commit)) == alike
            && slots.joins(&next.lists.puts, &next.lists.frees)
        {
            self.group.extend(commands.pop_front());
        }
    }

    fn carry_out(&mut self) -> io::Result<()> {
        match self.group.first().map(|first| first.change) {
            None => Ok(()),
            Some(Change::Commit) => self.nvram.commit(self.group.iter().map(|command| Commit {
                puts: &command.lists.puts,
                bytes: &command.bytes,
                frees: &command.lists.frees,
            })),
            Some(Change::Intent { .. }) => {
                for command in &self.group {
                    let set = matches!(command.change, Change::Intent { set: true });
                    command.lists.rows.iter().for_each(|rows| self.intents.set(*rows, set));
                }
                self.intents.sync()
            }
        }
    }
}

impl Worker for Store {
    type Command = Command;
    type Done = Done;

    const MOST: usize = usize::MAX;

    fn work(&mut self, commands: &mut VecDeque<Command>, done: &mut dyn FnMut(Done)) {
        while !self.broken && !commands.is_empty() {
            self.gather(commands);
            let mut error = self.carry_out().err();
            self.broken = error.is_some();
            for command in self.group.drain(..) {
                let failed = self.broken.then(|| error.take().unwrap_or_else(after_error));
                done((command, failed.map_or(Ok(()), Err)));
            }
        }
        for command in commands.drain(..) {
            done((command, Err(after_error())));
        }
    }
}

fn after_error() -> io::Error {
    io::Error::other("an earlier step of the NVRAM failed")
}
