//! Lets commands in: so many a second, as fast as the interface carries them, and none while too many writes wait inside.

use super::config::ModernGeometry;

/// Holds a command of which a page was dealt with already.
#[derive(Clone, Copy, Debug, Default)]
struct HostCommand {
    /// When it was let in; meaningful once it has pages.
    admitted: u64,
    pages: u64,
    /// The page behind its last one.
    next_page: u32,
    /// Time that it took of the interface so far.
    taken: u64,
    /// Where its answer is in the ring of slots.
    slot: usize,
}

/// Tells reads from writes, which have commands of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    Read,
    Write,
}

/// Models the interface of a drive, which takes commands in the order of their arrival.
#[derive(Clone, Debug)]
pub(super) struct FrontEnd {
    /// Times at which the last writes were answered, as a ring.
    slots: Vec<u64>,
    next: usize,
    /// Until when the interface is busy.
    link: u64,
    /// Time of a command at least, and of each sector.
    gap: u64,
    sector: u64,
    /// True once somebody says where commands begin; else each page is a command.
    has_borders: bool,
    commands: [HostCommand; 2],
}

impl FrontEnd {
    /// Returns an interface at which nothing has arrived.
    pub(super) fn new(geometry: &ModernGeometry) -> Self {
        Self {
            slots: vec![0; geometry.config.write_slots as usize],
            next: 0,
            link: 0,
            gap: geometry.command_gap,
            sector: geometry.link_sector,
            has_borders: false,
            commands: [HostCommand::default(); 2],
        }
    }

    /// Forgets everything that arrived.
    pub(super) fn reset(&mut self) {
        self.slots.fill(0);
        self.next = 0;
        self.link = 0;
        self.commands = [HostCommand::default(); 2];
    }

    /// Ends the commands so far: pages that are read next and follow each other are one command, and those that are written
    /// next another.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.has_borders = true;
        self.commands = [HostCommand::default(); 2];
    }

    /// Lets a page in that arrives at `now`; returns when it is, and whether its command had pages before. A command is a run
    /// of pages: what lies elsewhere takes another one, such as pages that a buffer evicts for one request of its host.
    #[inline]
    pub(super) fn admit(&mut self, kind: CommandKind, now: u64, page: u32) -> (u64, bool) {
        let command = &mut self.commands[kind as usize];
        if self.has_borders && command.pages > 0 && command.next_page == page {
            command.pages += 1;
            command.next_page = page.wrapping_add(1);
            let takes = self.gap.max(command.pages * self.sector);
            self.link += takes - command.taken;
            command.taken = takes;
            return (command.admitted.max(now), true);
        }
        let admitted = now.max(self.slots[self.next]).max(self.link);
        let taken = self.gap.max(self.sector);
        self.link = admitted + taken;
        *command = HostCommand { admitted, pages: 1, next_page: page.wrapping_add(1), taken, slot: 0 };
        (admitted, false)
    }

    /// Notes when a page of a write was answered, the first of its command or a later one.
    #[inline]
    pub(super) fn answered(&mut self, at: u64, is_later: bool) {
        let command = &mut self.commands[CommandKind::Write as usize];
        if is_later {
            let slot = &mut self.slots[command.slot];
            *slot = at.max(*slot);
        } else {
            command.slot = self.next;
            self.slots[self.next] = at;
            self.next = if self.next + 1 == self.slots.len() { 0 } else { self.next + 1 };
        }
    }
}
