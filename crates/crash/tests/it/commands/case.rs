//! The commands, and what they find.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_crash::{RandomDraws, caught};
use destage_engine::{ArrayDescription, ArrayMaking, ArrayState, BlockBackend, NvramPart};
use destage_exec::{CrashPoint, ExecutorFault, OsInterface, RecordingOs};

use super::killed::{AllowedLosses, CutTally, LossKind, look, make_again, replacement, taking_out};
use super::knowledge::ClientKnowledge;
use super::served::{MEMBERS, OFFSET, ServedArray, described, description, make, prepare};

/// Names a command, and what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandCase {
    /// Stands for `destage create`.
    Create,
    /// Stands for `destage create --overwrite`.
    CreateOver,
    /// Stands for `destage create --adopt`.
    Adopt,
    /// Stands for `destage serve` after a clean stop.
    Start,
    /// Starts after the end of the process, with requests under way.
    StartAfterKill,
    /// Starts after the end of the power.
    StartAfterCut,
    /// Starts without a member after a clean stop.
    StartDegraded,
    /// Starts without a member after the end of the process: with `--accept-losses`, since rows may be torn.
    StartTorn,
    /// Starts without the NVRAM, or the cache's device: with `--accept-losses` where that alone has data.
    StartBereft,
    /// Stands for `destage replace` of a lost member, by another file.
    ReplaceLost,
    /// Replaces a member that answers: it is copied.
    ReplaceWhole,
    /// Replaces a lost member by its own file, made anew.
    ReplaceOwn,
    /// Replaces the cache, which is written back before.
    ReplaceCache,
    /// Stands for `destage fail`.
    Fail,
    /// Stands for `destage detach`.
    Detach,
    /// Stands for `destage attach`, after that.
    Attach,
    /// Stands for a failure of the cache's device while the array is served.
    LoseCache,
    /// Stands for `destage flush`.
    Flush,
    /// Stands for `destage stop`.
    Stop,
}

impl CommandCase {
    pub const ALL: [Self; 19] = [
        Self::Create,
        Self::CreateOver,
        Self::Adopt,
        Self::Start,
        Self::StartAfterKill,
        Self::StartAfterCut,
        Self::StartDegraded,
        Self::StartTorn,
        Self::StartBereft,
        Self::ReplaceLost,
        Self::ReplaceWhole,
        Self::ReplaceOwn,
        Self::ReplaceCache,
        Self::Fail,
        Self::Detach,
        Self::Attach,
        Self::LoseCache,
        Self::Flush,
        Self::Stop,
    ];

    /// Returns true if it is about a cache's device that can be replaced.
    pub const fn is_of_cache(self) -> bool {
        matches!(self, Self::ReplaceCache | Self::Detach | Self::Attach | Self::LoseCache)
    }

    /// Names the devices that may be lost when it is cut short.
    const fn may_lose(self) -> &'static [&'static str] {
        match self {
            Self::StartDegraded | Self::StartTorn | Self::ReplaceLost | Self::ReplaceOwn | Self::Fail => &["member 1"],
            Self::ReplaceCache | Self::Detach | Self::Attach | Self::LoseCache | Self::StartBereft => &["cache"],
            _ => &[],
        }
    }
}

/// Cuts a command short.
#[derive(Clone, Copy, Debug)]
pub struct KilledCommand<'a> {
    pub case: CommandCase,
    pub cache: &'a str,
    pub seed: u64,
    /// Names a fault of the code that is tried, from the command on.
    pub slip: Option<ExecutorFault>,
}

/// Holds what a command leaves at some of its operations, with what was known then.
struct CommandTrail {
    ends: Vec<(CrashPoint, ClientKnowledge)>,
    /// Counts the operations of the command.
    operations: u64,
    /// Numbers the operation before which all of them were done.
    done: u64,
    allowed: AllowedLosses,
}

/// Sets how many operations' ends are held at a time.
const WINDOW: u64 = 24;

impl KilledCommand<'_> {
    /// Looks at what is left at each operation.
    pub fn cut_everywhere(&self) -> Result<CutTally, String> {
        let mut tally = CutTally::default();
        let (mut from, mut operations) = (0, u64::MAX);
        while from <= operations {
            let told = |why: String| format!("{self:?}: {why}");
            let trail = caught(|| self.trail(from..from + WINDOW)).map_err(told)?;
            operations = trail.operations;
            for (moment, known) in trail.ends {
                let is_done = moment.operations == trail.done;
                self.look(moment, known, is_done, trail.allowed, &mut tally)?;
            }
            from += WINDOW;
        }
        Ok(tally)
    }

    fn look(
        &self,
        moment: CrashPoint,
        known: ClientKnowledge,
        is_done: bool,
        allowed: AllowedLosses,
        tally: &mut CutTally,
    ) -> Result<(), String> {
        let CrashPoint { operations, power, left } = moment;
        (tally.ends, tally.cuts) = (tally.ends + 1, tally.cuts + u64::from(power));
        let dice = RandomDraws::part(self.seed ^ operations, self.case as u64);
        caught(|| {
            if is_done {
                self.check_description(&left);
            }
            self.go_on(&left, power, known, dice, allowed, tally);
        })
        .map_err(|why| {
            let end = if power { "the power failed" } else { "the process ended" };
            format!("{self:?}: {end} before operation {operations}: {why}")
        })
    }

    /// Begins the command: the ends before these operations of it are kept.
    fn begin(&self, os: &RecordingOs, window: &Range<u64>) -> u64 {
        let begin = os.operations();
        os.plant(self.slip);
        os.keep_ends_before(begin + window.start..begin + window.end);
        begin
    }

    /// Carries the command out; tells what it leaves at some of its operations, and at its end if that is among them.
    fn trail(&self, window: Range<u64>) -> CommandTrail {
        let mut dice = RandomDraws::part(self.seed, self.case as u64);
        let chance = dice.draw();
        let os = RecordingOs::new(move |n| Box::new(RandomDraws::part(chance, n)));
        prepare(&os, self.cache);
        match self.case {
            CommandCase::Create | CommandCase::CreateOver | CommandCase::Adopt => self.make(&os, dice, &window),
            CommandCase::Start
            | CommandCase::StartAfterKill
            | CommandCase::StartAfterCut
            | CommandCase::StartDegraded
            | CommandCase::StartTorn
            | CommandCase::StartBereft => self.start(&os, dice, &window),
            _ => self.order(&os, dice, &window),
        }
    }

    /// Ends a trail: if its last operation is in the window, what it leaves after that belongs to it.
    fn end(
        &self,
        os: &RecordingOs,
        begin: u64,
        window: &Range<u64>,
        known: &ClientKnowledge,
        mut ends: Vec<(CrashPoint, ClientKnowledge)>,
    ) -> CommandTrail {
        os.keep_ends_before(0..0);
        let operations = os.operations() - begin;
        if window.contains(&operations) {
            let last = |power| CrashPoint { operations: os.operations(), power, left: os.end(power) };
            ends.extend([false, true].map(|power| (last(power), known.clone())));
        }
        let losses = match self.case {
            CommandCase::StartTorn => LossKind::Torn,
            CommandCase::StartBereft if self.has_alone() => LossKind::Alone,
            _ => LossKind::None,
        };
        CommandTrail {
            ends,
            operations,
            done: begin + operations,
            allowed: AllowedLosses {
                losses,
                lost: self.case.may_lose(),
                copied_to: (self.case == CommandCase::ReplaceWhole).then_some("/array/other"),
            },
        }
    }

    /// Makes an array with content, of which some may be in the cache alone.
    fn filled(&self, cache: &str, os: &RecordingOs, mut dice: RandomDraws) -> ServedArray {
        let description = description(cache, self.seed, 1);
        let known = ClientKnowledge::fresh(&description);
        make(os, &description);
        let served = ServedArray::open(os, known, RandomDraws::new(dice.draw()), false);
        let mut served = served.unwrap_or_else(|refused| panic!("it is refused: {}", refused.why));
        served.work(30);
        served
    }

    /// Gives an order to an array that is served.
    fn order(&self, os: &RecordingOs, dice: RandomDraws, window: &Range<u64>) -> CommandTrail {
        let mut served = self.filled(self.cache, os, dice);
        let lost = match self.case {
            CommandCase::ReplaceLost | CommandCase::ReplaceOwn => Some("member 1"),
            CommandCase::Attach => Some("cache"),
            _ => None,
        };
        if let Some(device) = lost {
            served.replace(&taking_out(device)).expect("it is taken out");
            served.work(4);
        }
        served.request();
        let begin = self.begin(os, window);
        let done = match self.case {
            CommandCase::ReplaceLost | CommandCase::ReplaceWhole => {
                served.replace(&replacement("1", Some("/array/other")))
            }
            CommandCase::ReplaceOwn => served.replace(&replacement("1", None)),
            CommandCase::ReplaceCache => served.replace(&replacement("cache", Some("/array/other"))),
            CommandCase::Attach => served.replace(&replacement("cache", None)),
            CommandCase::Fail => served.replace(&taking_out("1")),
            CommandCase::Detach => served.replace(&taking_out("cache")),
            CommandCase::LoseCache => {
                os.set_broken(Path::new("/array/cache"), true);
                served.until(true, "the cache is lost", |served| served.lost() == ["cache"]);
                Ok(())
            }
            CommandCase::Flush => {
                served.flush(true);
                Ok(())
            }
            _ => {
                let (os, known, ends) = served.stop();
                return self.end(&os, begin, window, &known, ends);
            }
        };
        done.unwrap_or_else(|why| panic!("it is refused: {why}"));
        if self.case == CommandCase::ReplaceWhole {
            let status = served.array.status();
            assert!(status.devices[1].successor.is_some() && status.state == ArrayState::Serving, "{status:?}");
        }
        served.until(true, "it is copied", |served| !served.is_copying());
        // Some of what it has led to, such as filling a member, is cut as well.
        for _ in 0..40 {
            served.poll();
        }
        let ends = std::mem::take(&mut served.ends);
        self.end(os, begin, window, &served.known, ends)
    }

    /// Makes an array.
    fn make(&self, os: &RecordingOs, dice: RandomDraws, window: &Range<u64>) -> CommandTrail {
        let new = description(self.cache, self.seed, 2);
        let shared: Arc<dyn OsInterface> = Arc::new(os.clone());
        let old = description(self.cache, self.seed, 1);
        let (known, how) = match self.case {
            CommandCase::Create => (ClientKnowledge::fresh(&new), ArrayMaking::New),
            CommandCase::CreateOver => {
                let (_, known, _) = self.filled(self.cache, os, dice).stop();
                (known, ArrayMaking::Over(&old))
            }
            _ => (self.adoptable(os, dice), ArrayMaking::Adopted),
        };
        let begin = self.begin(os, window);
        new.make_on(&shared, &described(), how).expect("it can be made");
        let ends = os.take_moments().into_iter().map(|moment| (moment, known.clone())).collect();
        self.end(os, begin, window, &known, ends)
    }

    /// Leaves members with data and parity, as md would: nothing behind them, and nothing else.
    fn adoptable(&self, os: &RecordingOs, dice: RandomDraws) -> ClientKnowledge {
        let served = self.filled("none", os, dice);
        let (_, known, _) = served.stop();
        let pages = (OFFSET + description("none", self.seed, 1).array.member_size.0) as usize;
        for member in members() {
            let mut content = os.content(&member).expect("a member");
            content.truncate(pages);
            os.put(&member, &content);
        }
        for name in ["array.toml", "nvram", "intents"] {
            os.take_away(&Path::new("/array").join(name));
        }
        known
    }

    /// Starts an array.
    fn start(&self, os: &RecordingOs, dice: RandomDraws, window: &Range<u64>) -> CommandTrail {
        let mut served = self.filled(self.cache, os, dice.clone());
        let (left, mut known) = match self.case {
            CommandCase::Start | CommandCase::StartDegraded => {
                let (os, known, _) = served.stop();
                (os, known)
            }
            _ => {
                (0..4).for_each(|_| served.request());
                served.finish(self.case == CommandCase::StartAfterCut)
            }
        };
        let is_on_cache = self.cache.ends_with("@cache-device");
        let gone = match self.case {
            CommandCase::StartDegraded | CommandCase::StartTorn => Some("member1"),
            CommandCase::StartBereft if is_on_cache || self.cache == "write-back" && self.seed % 2 == 1 => {
                Some("cache")
            }
            CommandCase::StartBereft => Some("nvram"),
            _ => None,
        };
        if let Some(name) = gone {
            left.take_away(&Path::new("/array").join(name));
        }
        let accepts = self.case == CommandCase::StartTorn || self.case == CommandCase::StartBereft && self.has_alone();
        if self.case == CommandCase::StartTorn {
            // It names the same pages each time.
            let tried = ServedArray::open(&left.end(false), known.clone(), dice.clone(), true);
            let tried = tried.unwrap_or_else(|refused| panic!("it is refused: {}", refused.why));
            known.give_up(&tried.array.status().lost);
        } else if accepts {
            known.give_up_what_was_alone();
        }
        let begin = self.begin(&left, window);
        let opened = ServedArray::open(&left, known.clone(), dice, accepts);
        let mut served = opened.unwrap_or_else(|refused| panic!("it is refused: {}", refused.why));
        let mut ends = std::mem::take(&mut served.ends);
        served.work(2);
        ends.append(&mut served.ends);
        self.end(&left, begin, window, &served.known, ends)
    }

    /// Returns true if the cache, or the NVRAM, may have writes that are nowhere else.
    fn has_alone(&self) -> bool {
        matches!(self.cache, "write-back" | "wow")
    }

    /// Checks that the description of a command that was answered says what that has done.
    fn check_description(&self, left: &RecordingOs) {
        let text = left.content(&described()).map(|text| String::from_utf8(text).expect("it is text"));
        let found = ArrayDescription::parse(&text.expect("there is a description"), &described()).expect("it is whole");
        let is_made = matches!(self.case, CommandCase::Create | CommandCase::CreateOver | CommandCase::Adopt);
        let mut expected = description(self.cache, self.seed, if is_made { 2 } else { 1 });
        match self.case {
            CommandCase::ReplaceLost | CommandCase::ReplaceWhole => expected.array.members[1] = "/array/other".into(),
            CommandCase::ReplaceCache => expected.cache.device = Some("/array/other".into()),
            _ => {}
        }
        let leaves_cache = self.case.is_of_cache() || self.case == CommandCase::StartBereft;
        if leaves_cache && expected.nvram.on.is_some() {
            expected.nvram = NvramPart::own("nvram");
        }
        assert_eq!(found, expected, "what the description says");
    }

    /// Goes on with what is left.
    fn go_on(
        &self,
        left: &RecordingOs,
        power: bool,
        mut known: ClientKnowledge,
        dice: RandomDraws,
        allowed: AllowedLosses,
        tally: &mut CutTally,
    ) {
        let text = left.content(&described()).map(|text| String::from_utf8(text).expect("it is text"));
        let new = description(self.cache, self.seed, 2);
        let (how, stays) = match self.case {
            CommandCase::Adopt => (ArrayMaking::Adopted, members()),
            _ => (ArrayMaking::New, Vec::new()),
        };
        match (self.case, text) {
            (CommandCase::Create | CommandCase::CreateOver | CommandCase::Adopt, None) => {
                tally.unmade += 1;
                make_again(left, &new, how, &stays);
                if self.case != CommandCase::Adopt {
                    known = ClientKnowledge::fresh(&new);
                }
            }
            (CommandCase::CreateOver, Some(text)) => {
                let found = ArrayDescription::parse(&text, &described()).expect("it is whole");
                if found.uuid == new.uuid {
                    known = ClientKnowledge::fresh(&new);
                } else {
                    assert_eq!(found, description(self.cache, self.seed, 1), "one of the two");
                }
            }
            (_, Some(_)) => {}
            (_, None) => panic!("the description is gone"),
        }
        known.end(power);
        look(left, known, dice, allowed, tally);
    }
}

fn members() -> Vec<PathBuf> {
    (0..MEMBERS).map(|member| format!("/array/member{member}").into()).collect()
}
