//! Checks what a command leaves at each of its operations, and how its operator goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_crash::RandomDraws;
use destage_engine::{ArrayDescription, ArrayMaking, ArrayState, BlockBackend, DescriptionError, DeviceReplacement};
use destage_exec::{FilesError, RecordingOs};

use destage_raid::RaidLevel;

use super::knowledge::ClientKnowledge;
use super::served::{MEMBERS, RefusedStart, ServedArray, described};

/// Says what a start without `--accept-losses` may be refused over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossKind {
    /// Stands for none: it is not refused.
    #[default]
    None,
    /// Stands for pages that it names, of rows that may be torn: with `--accept-losses` they hold anything, or fail.
    Torn,
    /// Stands for what was nowhere else: nobody knows which pages, and they are what they were once.
    Alone,
}

/// Says what a start may be refused for, and which devices it may find lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowedLosses {
    /// Tells what a start may be refused over.
    pub losses: LossKind,
    /// Names the devices that may be lost, by words of their names.
    pub lost: &'static [&'static str],
    /// Names the file that member 1 was to be copied to: the same order once more does it, unless it is done.
    pub copied_to: Option<&'static str>,
}

/// Orders a device to be replaced, by this file if one is named.
pub fn replacement(device: &str, path: Option<&str>) -> DeviceReplacement {
    DeviceReplacement { device: device.to_owned(), path: path.map(PathBuf::from), takes_out: false, force: false }
}

/// Orders a device to be taken out.
pub fn taking_out(device: &str) -> DeviceReplacement {
    DeviceReplacement { device: device.to_owned(), path: None, takes_out: true, force: false }
}

/// Tells how often something happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct CutTally {
    /// Ends that were looked at.
    pub ends: u64,
    /// Counts those of the power.
    pub cuts: u64,
    /// Starts that were served.
    pub served: u64,
    /// Starts that were refused, and went on with the losses accepted.
    pub refused: u64,
    /// Ends that left no array, which was made then.
    pub unmade: u64,
    /// Starts that found a device lost, which was replaced.
    pub replaced: u64,
}

impl CutTally {
    pub fn add(&mut self, other: &Self) {
        self.ends += other.ends;
        self.cuts += other.cuts;
        self.served += other.served;
        self.refused += other.refused;
        self.unmade += other.unmade;
        self.replaced += other.replaced;
    }
}

/// Starts what is left; if that is refused, goes the way that the refusal names.
pub fn start(
    os: &RecordingOs,
    known: ClientKnowledge,
    dice: RandomDraws,
    allowed: AllowedLosses,
    tally: &mut CutTally,
) -> ServedArray {
    let RefusedStart { mut known, why } = match ServedArray::open(os, known, dice.clone(), false) {
        Ok(served) => return served,
        Err(refused) => refused,
    };
    // What was accepted is named again until its rows are consistent, and nothing else.
    let is_again = allowed.losses == LossKind::None && known.has_given_up_pages();
    assert!(is_again || allowed.losses != LossKind::None, "the start is refused: {why}");
    assert!(why.contains("--accept-losses"), "the refusal names no way on: {why}");
    tally.refused += 1;
    if allowed.losses == LossKind::Alone {
        known.give_up_what_was_alone();
    }
    let opened = ServedArray::open(os, *known, dice, true);
    let mut served =
        opened.unwrap_or_else(|RefusedStart { why, .. }| panic!("refused with all losses accepted: {why}"));
    let lost = served.array.status().lost;
    if is_again {
        assert!(served.known.has_given_up(&lost), "more is lost than was accepted: {lost:?}");
    } else if allowed.losses == LossKind::Torn {
        served.known.give_up(&lost);
    }
    served
}

/// Looks at what is left: it is served, with the content that it must have; what is lost is replaced; and after that it
/// can do without any member.
pub fn look(
    os: &RecordingOs,
    known: ClientKnowledge,
    mut dice: RandomDraws,
    allowed: AllowedLosses,
    tally: &mut CutTally,
) {
    let mut served = start(os, known, dice.clone(), allowed, tally);
    tally.served += 1;
    served.read_all();
    let lost = served.lost();
    for name in &lost {
        assert!(allowed.lost.contains(&name.as_str()), "{name} is lost");
    }
    served.work(dice.within(0, 6) as usize);
    if let Some(path) =
        allowed.copied_to.filter(|path| served.array.files().config().devices[1].path != Path::new(path))
    {
        tally.replaced += 1;
        served.replace(&replacement("1", Some(path))).unwrap_or_else(|why| panic!("the same order is refused: {why}"));
        served.until(true, "it is copied", |served| !served.is_copying());
        assert_eq!(served.array.files().config().devices[1].path, Path::new(path), "it takes the member's place");
    }
    for name in &lost {
        tally.replaced += 1;
        let fresh = format!("/array/fresh of {name}");
        let order = replacement(name, Some(&fresh));
        served.replace(&order).unwrap_or_else(|why| panic!("{name} cannot be replaced: {why}"));
    }
    served.until(true, "it is whole", |served| served.state() == ArrayState::Serving);
    served.settle();
    served.read_all();
    let (os, known, _) = served.stop();
    let text = String::from_utf8(os.content(&described()).expect("a description")).expect("text");
    let description = ArrayDescription::parse(&text, &described()).expect("it is one");
    if description.array.level == RaidLevel::Raid0 {
        let opened = ServedArray::open(&os, known, dice, false);
        let mut served = opened.unwrap_or_else(|refused| panic!("it is refused after a clean stop: {}", refused.why));
        assert_eq!(served.state(), ArrayState::Serving, "it is whole");
        return served.read_all();
    }
    // Any member can be done without.
    let member = &description.array.members[dice.below(MEMBERS as u64) as usize];
    os.take_away(&Path::new("/array").join(member));
    let opened = ServedArray::open(&os, known, dice, false);
    let mut served =
        opened.unwrap_or_else(|RefusedStart { why, .. }| panic!("it is refused after a clean stop: {why}"));
    let state = served.state();
    assert_eq!(state, ArrayState::Degraded, "without a member");
    served.read_all();
}

/// Makes an array of which only parts are there, as whoever runs it would: what is in the way is moved away, if it is none
/// of what must stay.
pub fn make_again(os: &RecordingOs, description: &ArrayDescription, how: ArrayMaking<'_>, stays: &[PathBuf]) {
    let os_again: Arc<dyn destage_exec::OsInterface> = Arc::new(os.clone());
    for _ in 0..16 {
        let in_the_way = match description.make_on(&os_again, &described(), how) {
            Ok(_) => return,
            Err(DescriptionError::Files(FilesError::Exists(path))) => path,
            // As the message says; of some parts of a label nobody can tell what they are.
            Err(DescriptionError::Files(error @ FilesError::LabelsPlace { .. })) => {
                let said = error.to_string();
                assert!(said.contains("truncate") || said.contains("look first"), "it names no way on: {said}");
                let FilesError::LabelsPlace { path, end, .. } = error else { unreachable!("it is one") };
                let mut content = os.content(&path).expect("it is there");
                content.truncate(end as usize);
                os.put(&path, &content);
                continue;
            }
            Err(error) => panic!("it cannot be made again: {error}"),
        };
        assert!(!stays.contains(&in_the_way), "{} is in the way, and must stay", in_the_way.display());
        os.take_away(&in_the_way);
    }
    panic!("something is in the way of an array for ever");
}
