//! A random walk over what happens to an array that is served: members are lost and return, are replaced by what may take
//! their place and by what may not, are taken out, cannot read a sector; the cache is lost, detached and attached; there is no
//! room; files are older copies; the process ends, and the power. Requests come all the while, and are held against the model.

mod ends;
mod orders;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use destage_crash::{RandomDraws, caught};
use destage_engine::{BlockBackend, DescribedArray, ScrubRequest, ScrubState, ScrubStatus};
use destage_exec::{BadBytes, IoFault, RecordingOs};
use destage_plan::{Dev, DevSet, HostOp, Row};

use super::killed::{AllowedLosses, CutTally, LossKind, replacement, start, taking_out};
use super::knowledge::ClientKnowledge;
use super::served::{MEMBERS, OFFSET, PAGE, ServedArray, description, make, prepare};

/// Lists what can happen.
const EVENTS: [WalkEvent; 17] = [
    WalkEvent::Lose,
    WalkEvent::Return,
    WalkEvent::LoseCache,
    WalkEvent::Replace,
    WalkEvent::Copy,
    WalkEvent::ReplaceWrongly,
    WalkEvent::TakeOut,
    WalkEvent::Detach,
    WalkEvent::Attach,
    WalkEvent::BadSector,
    WalkEvent::NoRoom,
    WalkEvent::OlderCopy,
    WalkEvent::Kill,
    WalkEvent::Cut,
    WalkEvent::Stop,
    WalkEvent::Flush,
    WalkEvent::Scrub,
];

/// Names what happens to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WalkEvent {
    /// Breaks a member.
    Lose,
    /// Lets what broke answer again.
    Return,
    /// Breaks the cache's device.
    LoseCache,
    /// Replaces a member, or the cache; that is refused if the array needs it.
    Replace,
    /// Copies a member that answers to another file, which takes its place.
    Copy,
    /// Has a file take a member's place that must not.
    ReplaceWrongly,
    /// Takes a member out.
    TakeOut,
    /// Takes the cache out.
    Detach,
    /// Gives it a cache again.
    Attach,
    /// Lets a member not read a sector.
    BadSector,
    /// Leaves no room for something.
    NoRoom,
    /// Puts an older copy of a file back before a start.
    OlderCopy,
    /// Ends the process.
    Kill,
    /// Ends the power.
    Cut,
    /// Stops it in order, and starts it again.
    Stop,
    /// Writes all back.
    Flush,
    /// Compares its rows.
    Scrub,
}

/// Holds what a walk knows beside what is served.
struct WalkState {
    seed: u64,
    cache: &'static str,
    dice: RandomDraws,
    /// Tells that a device has failed, and that this need not be noted: rows that were being written may be torn after an end.
    window: bool,
    /// Names the files that are broken.
    broken: Vec<PathBuf>,
    /// Names the files that were filled anew: what they held before does not count.
    refilled: Vec<PathBuf>,
    /// Keeps what the files held at an earlier stop.
    copies: Vec<(PathBuf, Vec<u8>)>,
    /// Numbers the last fresh file.
    fresh: u32,
    /// Tells that nothing is written in this life.
    reads_alone: bool,
    /// Lists what has happened, in words.
    notes: Rc<RefCell<Vec<String>>>,
}

/// Walks as a seed decides.
struct RandomWalk {
    served: ServedArray,
    state: WalkState,
}

/// Returns the events of a walk. The error says what went wrong, and after which events.
pub fn walk(cache: &'static str, seed: u64) -> Result<Vec<WalkEvent>, String> {
    let (mut log, notes) = (Vec::new(), Rc::default());
    let walked = caught(|| {
        let mut walk = RandomWalk::begin(cache, seed, Rc::clone(&notes));
        for _ in 0..walk.state.dice.within(4, 14) {
            let event = walk.state.dice.pick(&EVENTS);
            log.push(event);
            walk.note(&format!("{event:?}"));
            walk = walk.step(event);
        }
        walk.end();
    });
    match walked {
        Ok(()) => Ok(log),
        Err(why) => Err(format!("walk of {cache}, seed {seed}: {why}\n  {}", notes.take().join("\n  "))),
    }
}

impl WalkState {
    /// Returns what a start may find.
    fn allowed(&self) -> AllowedLosses {
        const ALL: [&str; 5] = ["member 0", "member 1", "member 2", "member 3", "cache"];
        let losses = if self.window { LossKind::Torn } else { LossKind::None };
        AllowedLosses { losses, lost: &ALL, copied_to: None }
    }

    /// Starts an array again.
    fn open(mut self, os: &RecordingOs, known: ClientKnowledge) -> RandomWalk {
        let dice = RandomDraws::new(self.dice.draw());
        let served = start(os, known, dice, self.allowed(), &mut CutTally::default());
        self.reads_alone = self.dice.one_in(5);
        let mut walk = RandomWalk { served, state: self };
        assert!(walk.degraded().len() <= 1, "{:?} are lost", walk.degraded());
        walk.work();
        walk
    }

    fn fresh_file(&mut self, os: &RecordingOs) -> String {
        self.fresh += 1;
        let path = format!("/array/fresh{}", self.fresh);
        os.set_sector(Path::new(&path), PAGE);
        path
    }
}

impl RandomWalk {
    fn begin(cache: &'static str, seed: u64, notes: Rc<RefCell<Vec<String>>>) -> Self {
        let mut dice = RandomDraws::part(seed, u64::MAX - 20);
        let chance = dice.draw();
        let os = RecordingOs::new(move |n| Box::new(RandomDraws::part(chance, n)));
        prepare(&os, cache);
        let description = description(cache, seed, 1);
        make(&os, &description);
        let known = ClientKnowledge::fresh(&description);
        let (broken, copies) = (Vec::new(), Vec::new());
        let state = WalkState {
            seed,
            cache,
            dice,
            window: false,
            broken,
            refilled: Vec::new(),
            copies,
            fresh: 0,
            reads_alone: false,
            notes,
        };
        state.open(&os, known)
    }

    /// Serves some requests, of which some stay under way.
    fn work(&mut self) {
        for _ in 0..self.state.dice.within(0, 8) {
            if self.state.reads_alone {
                self.served.ask(HostOp::Read, self.state.dice.below(40), 2, false);
            } else {
                self.served.request();
            }
            self.served.until(false, "there is room", |served| served.asked() < 4);
        }
        for _ in 0..self.state.dice.below(30) {
            self.served.poll();
        }
        self.watch();
    }

    /// Notes what happens, and how the array is.
    fn note(&self, what: &str) {
        let array = self.served.array.files().engine().controller().array();
        let (lost, filling) = (self.served.lost(), array.filling());
        let (window, exposed) = (self.state.window, array.is_exposed());
        let now = format!(
            "{what}: lost {lost:?}, not whole {:?}, filling {filling:?}, window {window}, exposed {exposed}, {} under way",
            array.degraded(),
            self.served.asked()
        );
        self.state.notes.borrow_mut().push(now);
    }

    /// Looks whether all that failed is noted.
    fn watch(&mut self) {
        let files = self.served.array.files();
        let array = files.engine().controller().array();
        let is_known = self.state.broken.iter().all(|path| {
            let at = files.config().devices.iter().position(|device| device.path == *path);
            at.is_none_or(|at| !files.answers(Dev(at as u8)))
        });
        if is_known && !array.is_exposed() && self.served.array.is_noted() {
            self.state.window = false;
        }
    }

    fn degraded(&self) -> DevSet {
        self.served.array.files().engine().controller().array().degraded()
    }

    /// Returns true if all is there, so that something can be lost.
    fn is_whole(&self) -> bool {
        let controller = self.served.array.files().engine().controller();
        let has_cache = self.has_device();
        self.state.broken.is_empty()
            && self.degraded().is_empty()
            && !self.state.window
            && (!has_cache || controller.is_caching() && self.served.lost().is_empty())
    }

    /// Returns true if nothing is lost with the cache's device, be it that the NVRAM lies on it.
    fn can_lose_cache(&self) -> bool {
        self.has_device() && !self.state.cache.starts_with("write-back")
    }

    fn has_device(&self) -> bool {
        self.served.array.files().config().devices.len() > MEMBERS
    }

    fn path_of(&self, dev: usize) -> PathBuf {
        self.served.array.files().config().devices[dev].path.clone()
    }

    fn step(mut self, event: WalkEvent) -> Self {
        match event {
            WalkEvent::Lose if self.is_whole() => {
                let dev = self.state.dice.below(MEMBERS as u64) as usize;
                self.fail(dev);
            }
            WalkEvent::LoseCache if self.is_whole() && self.can_lose_cache() => self.fail(MEMBERS),
            WalkEvent::Return => {
                for path in std::mem::take(&mut self.state.broken) {
                    let at = self.served.array.files().config().devices.iter().position(|device| device.path == path);
                    // What nobody has noticed has not failed.
                    if at.is_some_and(|at| self.served.array.files().answers(Dev(at as u8))) {
                        self.state.broken.push(path);
                    } else {
                        self.served.os.set_broken(&path, false);
                    }
                }
            }
            WalkEvent::Replace => self.replace(),
            WalkEvent::Copy => self.copy(),
            WalkEvent::ReplaceWrongly => self.replace_wrongly(),
            WalkEvent::TakeOut => {
                let dev = self.state.dice.below(MEMBERS as u64) as u8;
                self.order(Dev(dev), &taking_out(&dev.to_string()));
            }
            WalkEvent::Detach if self.has_device() => self.order(Dev(MEMBERS as u8), &taking_out("cache")),
            WalkEvent::Attach if self.has_device() && self.served.lost().iter().any(|name| name == "cache") => {
                let path = self.state.fresh_file(&self.served.os);
                self.order(Dev(MEMBERS as u8), &replacement("cache", Some(&path)));
            }
            WalkEvent::BadSector => self.bad_sector(),
            WalkEvent::NoRoom => return self.no_room(),
            WalkEvent::OlderCopy => return self.older_copy(),
            WalkEvent::Kill | WalkEvent::Cut => {
                self.watch();
                return self.restart(event == WalkEvent::Cut);
            }
            WalkEvent::Stop => return self.stop(),
            WalkEvent::Flush => {
                let loaded = !self.state.reads_alone;
                self.served.flush(loaded);
            }
            WalkEvent::Scrub => self.scrub(),
            _ => {}
        }
        self.work();
        self
    }

    fn fail(&mut self, dev: usize) {
        let path = self.path_of(dev);
        self.served.os.set_broken(&path, true);
        self.state.broken.push(path);
        self.state.window = true;
    }

    /// Lets a member be unable to read a sector of data, which the array makes anew as it is read.
    fn bad_sector(&mut self) {
        // With a cache it might not be read before something else is lost.
        // A member that is being copied may have handed over before.
        if self.state.cache != "none" || !self.is_whole() || self.served.is_copying() {
            return;
        }
        self.served.settle();
        let DescribedArray { geometry, .. } = description(self.state.cache, self.state.seed, 1)
            .described(Path::new("/array"))
            .expect("there is such an array");
        let dev = self.state.dice.below(MEMBERS as u64) as usize;
        let row = self.state.dice.below(geometry.member_pages());
        let (stripe, _) = geometry.stripe_of(Row(row));
        if !geometry.data_set().contains(geometry.column(stripe, Dev(dev as u8))) {
            return;
        }
        let from = OFFSET + row * PAGE;
        self.served.os.spoil(&self.path_of(dev), from..from + PAGE, BadBytes::UntilWritten);
        self.served.read_all();
        self.served.until(false, "it is made anew", |served| served.array.files().is_idle());
        let corrected: u64 = self.served.array.status().devices.iter().map(|device| device.corrected_pages).sum();
        assert!(corrected > 0, "row {row} of member {dev} is made anew");
    }

    /// Compares rows, which all belong together, whatever is lost or delayed.
    fn scrub(&mut self) {
        let order = ScrubRequest { repair: self.state.dice.one_in(2), ..ScrubRequest::default() };
        if self.served.array.begin_scrub(&order).is_err() || self.state.dice.one_in(3) {
            // One is under way, or goes on beside what comes next.
            return;
        }
        let has_ended = |status: ScrubStatus| status.state != ScrubState::Running;
        let loaded = !self.state.reads_alone;
        self.served.until(loaded, "all rows are compared", |served| served.array.scrub().is_none_or(has_ended));
        let found = self.served.array.scrub().expect("it has run");
        assert_eq!((found.mismatched_rows, &found.state), (0, &ScrubState::Finished), "{found}");
    }

    /// Leaves no room for one of the next writes: the array stops, and goes on with all that was answered.
    fn no_room(mut self) -> Self {
        if !self.is_whole() || self.state.reads_alone || self.has_device() {
            return self;
        }
        self.served.os.fail_after(self.state.dice.below(30), IoFault::NoRoom);
        let mut stopped = None;
        for _ in 0..60 {
            if self.served.asked() < 4 {
                self.served.request();
            }
            if let Err(why) = self.served.try_poll() {
                stopped = Some(why);
                break;
            }
        }
        self.served.os.take_fault();
        // A sync that fails costs the device, whatever the reason.
        self.state.window |= self.served.os.struck().is_some();
        self.note(&format!("  struck {:?}, stopped {stopped:?}", self.served.os.struck()));
        if let Some(why) = stopped {
            assert!(why.contains("No space left"), "it stops over the want of room: {why}");
            return self.restart(false);
        }
        self.work();
        self
    }
}
