//! Ends an array, by the process, by the power or in order, and starts it again, also with older copies of its files.

use std::path::PathBuf;

use destage_crash::RandomDraws;
use destage_exec::RecordingOs;
use destage_plan::Dev;

use super::super::killed::{CutTally, look};
use super::super::knowledge::ClientKnowledge;
use super::super::served::{MEMBERS, ServedArray};
use super::{RandomWalk, WalkState};

impl RandomWalk {
    /// Ends it, and starts it again.
    pub(super) fn restart(self, power: bool) -> Self {
        let files = self.served.array.files();
        let devices = files.config().devices.iter().enumerate();
        // A sync of them has failed, and nobody has heard of it: the next process would read what is not durable.
        let is_spoiled = |dev: usize, path: &PathBuf| {
            let is_old = !self.state.refilled.contains(path);
            files.answers(Dev(dev as u8)) && is_old && self.served.os.is_spoiled(path)
        };
        let spoiled = devices.filter(|(dev, device)| is_spoiled(*dev, &device.path));
        let spoiled: Vec<PathBuf> = spoiled.map(|(_, device)| device.path.clone()).collect();
        let Self { served, state } = self;
        let (os, known) = served.finish(power);
        for path in spoiled {
            os.take_away(&path);
        }
        state.open(&os, known)
    }

    /// Stops it in order, and starts it again.
    pub(super) fn stop(self) -> Self {
        let (mut state, os, known) = self.end_in_order();
        state.window = false;
        state.open(&os, known)
    }

    fn end_in_order(mut self) -> (WalkState, RecordingOs, ClientKnowledge) {
        self.served.settle();
        let Self { served, state } = self;
        let (os, known, _) = served.stop();
        (state, os, known)
    }

    /// Stops it, and starts it with an older copy of something, if there is one; else keeps copies.
    pub(super) fn older_copy(mut self) -> Self {
        // Until then a file may take the place of a member that is copied.
        self.served.settle();
        if !self.is_whole() {
            return self;
        }
        let config = self.served.array.files().config();
        let mut paths: Vec<PathBuf> = config.devices.iter().map(|device| device.path.clone()).collect();
        paths.extend([config.nvram_path().to_owned(), config.intents.clone()]);
        let (mut state, os, known) = self.end_in_order();
        let copies = std::mem::take(&mut state.copies);
        if copies.iter().map(|copy| &copy.0).ne(&paths) {
            let copy = |path: PathBuf| (os.content(&path).map(|bytes| (path, bytes))).expect("it is there");
            state.copies = paths.into_iter().map(copy).collect();
            return state.open(&os, known);
        }
        if state.dice.one_in(2) {
            // It counts as lost.
            let (path, bytes) = &copies[state.dice.below(MEMBERS as u64) as usize];
            os.put(path, bytes);
            let walk = state.open(&os, known);
            assert_eq!(walk.degraded().len(), 1, "an older copy of {} is believed", path.display());
            return walk;
        }
        // Those of the array's own notes are older than all that they tell of.
        let newer: Vec<_> =
            paths[MEMBERS..].iter().map(|path| (path, os.content(path).expect("it is there"))).collect();
        copies[MEMBERS..].iter().for_each(|(path, bytes)| os.put(path, bytes));
        let dice = RandomDraws::new(state.dice.draw());
        let known = match ServedArray::open(&os, known, dice, false) {
            Err(refused) => {
                assert!(refused.why.contains("--accept-losses"), "it names no way on: {}", refused.why);
                for (path, bytes) in newer {
                    os.put(path, &bytes);
                }
                *refused.known
            }
            // Without data of their own they are made anew.
            Ok(served) => {
                assert!(
                    served.array.files().resynchronised().is_some_and(|done| done.is_behind),
                    "older copies are believed"
                );
                let (_, known, _) = served.stop();
                known
            }
        };
        state.open(&os, known)
    }

    /// Ends the walk: whatever has happened, it can be made whole, and then do without any member.
    pub(super) fn end(mut self) {
        self.watch();
        let Self { served, mut state } = self;
        let (os, known) = served.finish(state.dice.one_in(2));
        look(&os, known, RandomDraws::new(state.dice.draw()), state.allowed(), &mut CutTally::default());
    }
}
