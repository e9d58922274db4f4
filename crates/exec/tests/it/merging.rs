//! Merges drawn commands, and compares with a small model that knows of no merging.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use destage_exec::{
    AlignedBuffer, FileOp, LockedFile, MergeRole, OperationTag, OsInterface, PathPresence, RealOs, RequestMerger,
    RingEntries, RingEntry, SyncPoint, tell_parts,
};
use destage_testkit::folder;
use proptest::collection::vec;
use proptest::prelude::*;
use rustix::io::Errno;

use crate::arrays::recording;

/// Gives the bytes of a block of the files here.
const BLOCK: usize = 512;
/// Gives the blocks of a file.
const BLOCKS: usize = 24;

/// Says what an entry of the property asks for, in blocks.
#[derive(Clone, Copy, Debug)]
enum DrawnCommand {
    Read(usize, usize),
    Write(usize, usize),
    /// Is never merged.
    BarredWrite(usize, usize),
    Punch(usize, usize),
    Sync,
}

impl DrawnCommand {
    /// Returns the blocks that it changes or reads, and whether it changes them; none of a sync.
    fn blocks(self) -> Option<(Range<usize>, bool)> {
        match self {
            Self::Read(at, len) => Some((at..at + len, false)),
            Self::Write(at, len) | Self::BarredWrite(at, len) | Self::Punch(at, len) => Some((at..at + len, true)),
            Self::Sync => None,
        }
    }

    /// Returns true if one must not pass the other.
    fn conflicts(self, other: Self) -> bool {
        if [self, other].iter().any(|one| matches!(one, Self::Punch(..) | Self::Sync)) {
            return true;
        }
        let (Some((one, writes)), Some((two, also_writes))) = (self.blocks(), other.blocks()) else { return true };
        (writes || also_writes) && one.start < two.end && two.start < one.end
    }

    fn entry(self, number: usize, file: &Arc<LockedFile>) -> RingEntry {
        let (role, operation, blocks) = match self {
            Self::Read(at, len) => (MergeRole::Single, FileOp::Read { offset: (at * BLOCK) as u64 }, len),
            Self::Write(at, len) => (MergeRole::Single, FileOp::Write { offset: (at * BLOCK) as u64 }, len),
            Self::BarredWrite(at, len) => (MergeRole::Barred, FileOp::Write { offset: (at * BLOCK) as u64 }, len),
            Self::Punch(at, len) => {
                let (offset, len) = ((at * BLOCK) as u64, (len * BLOCK) as u64);
                (MergeRole::Single, FileOp::PunchHole { offset, len }, 0)
            }
            Self::Sync => (MergeRole::Single, FileOp::Sync(SyncPoint::Flush), 0),
        };
        let mut bytes = AlignedBuffer::zeroed((blocks + 1) * BLOCK);
        bytes.fill(number as u8 + 1);
        // Not all of the buffer: what lies before is another command's.
        let (bytes, range) = (Arc::new(bytes), BLOCK..(blocks + 1) * BLOCK);
        let tag = OperationTag { dev: 0, life: 0, command: number as u32 };
        RingEntry { role, tag, file: Arc::clone(file), operation, bytes, range }
    }
}

fn asked() -> impl Strategy<Value = DrawnCommand> {
    let place = || (0..BLOCKS - 3, 1..4_usize);
    prop_oneof![
        8 => place().prop_map(|(at, len)| DrawnCommand::Read(at, len)),
        12 => place().prop_map(|(at, len)| DrawnCommand::Write(at, len)),
        1 => place().prop_map(|(at, len)| DrawnCommand::BarredWrite(at, len)),
        1 => place().prop_map(|(at, len)| DrawnCommand::Punch(at, len)),
        1 => Just(DrawnCommand::Sync),
    ]
}

/// Draws commands of which many are neighbours: a few streams, shuffled.
fn streams() -> impl Strategy<Value = Vec<DrawnCommand>> {
    let stream = (0..BLOCKS - 3, 1..8_usize, any::<bool>()).prop_map(|(at, len, writes)| {
        let one = move |at| if writes { DrawnCommand::Write(at, 1) } else { DrawnCommand::Read(at, 1) };
        (at..(at + len).min(BLOCKS)).map(one).collect::<Vec<_>>()
    });
    vec(stream, 1..4).prop_map(|streams| streams.concat()).prop_shuffle()
}

/// Does what entries ask for one after the other, those that follow others in one call with them. Returns them in the order in
/// which they were given at first.
fn done(mut entries: RingEntries) -> Vec<RingEntry> {
    let (mut ended, all) = (VecDeque::new(), entries.len());
    while let Some(mut first) = entries.pop_front() {
        let mut parts: Vec<_> = entries.drain(..first.parts() - 1).collect();
        if parts.is_empty() {
            let (file, range) = (Arc::clone(&first.file), first.range.clone());
            let result = match first.operation {
                FileOp::Read { offset } => {
                    let bytes = Arc::get_mut(&mut first.bytes).expect("nobody else has it");
                    file.read_exact_at(&mut bytes[range], offset)
                }
                FileOp::Write { offset } => file.write_all_at(&first.bytes[range], offset),
                FileOp::PunchHole { offset, len } => file.punch_hole(offset, len),
                FileOp::Sync(_) => Ok(()),
            };
            result.expect("it is done");
            ended.push_back((first, Ok(0)));
            continue;
        }
        parts.insert(0, first);
        let (file, operation) = (Arc::clone(&parts[0].file), parts[0].operation);
        let result = match operation {
            FileOp::Read { offset } => {
                let mut buffers: Vec<_> = parts
                    .iter_mut()
                    .map(|part| {
                        let range = part.range.clone();
                        io::IoSliceMut::new(&mut Arc::get_mut(&mut part.bytes).expect("nobody else has it")[range])
                    })
                    .collect();
                file.read_vectored_at(&mut buffers, offset)
            }
            FileOp::Write { offset } => {
                let buffers: Vec<_> =
                    parts.iter().map(|part| io::IoSlice::new(&part.bytes[part.range.clone()])).collect();
                file.write_vectored_at(&buffers, offset)
            }
            other => panic!("{other:?} is merged"),
        };
        tell_parts(parts.into_iter(), &result, &mut ended);
    }
    assert_eq!(ended.len(), all, "each is answered once");
    let mut ended: Vec<_> = ended.into_iter().map(|(entry, result)| (entry, result.expect("it is done")).0).collect();
    ended.sort_by_key(|entry| entry.tag.command);
    ended
}

/// Makes a file whose blocks differ.
fn file(path: &Path) -> Arc<LockedFile> {
    let file = RealOs.open(path, PathPresence::New).expect("a file");
    for block in 0..BLOCKS {
        file.write_all_at(&[200 + block as u8; BLOCK], (block * BLOCK) as u64).expect("it is written");
    }
    LockedFile::new(file, false)
}

fn content(file: &LockedFile) -> Vec<u8> {
    let mut bytes = vec![0; BLOCKS * BLOCK];
    file.read_exact_at(&mut bytes, 0).expect("it is read");
    bytes
}

/// Counts the commands that begin where the one before them ends, in order of their offsets.
fn neighbours(asked: &[DrawnCommand]) -> u64 {
    let mut places: Vec<_> = asked.iter().filter_map(|asked| asked.blocks()).collect();
    places.sort_by_key(|(blocks, _)| blocks.start);
    let is_barred =
        |start: usize| asked.iter().any(|asked| matches!(asked, DrawnCommand::BarredWrite(at, _) if *at == start));
    let is_merged = |pair: &&[(Range<usize>, bool)]| {
        let [one, next] = pair else { return false };
        one.0.end == next.0.start && one.1 == next.1 && !is_barred(one.0.start) && !is_barred(next.0.start)
    };
    places.windows(2).filter(is_merged).count() as u64
}

/// Checks merging against no merging.
fn check(asked: &[DrawnCommand]) -> Result<(), TestCaseError> {
    let folder = folder();
    let (plain, merged) = (file(&folder.path().join("plain")), file(&folder.path().join("merged")));
    let entries =
        |file| asked.iter().zip(0..).map(|(asked, number)| asked.entry(number, file)).collect::<RingEntries>();
    let (expected, mut given) = (entries(&plain), entries(&merged));
    let counts = RequestMerger::default().merge(&mut given);
    let order: Vec<_> = given.iter().map(|entry| entry.tag.command as usize).collect();
    let mut all = order.clone();
    all.sort_unstable();
    prop_assert!(all.into_iter().eq(0..asked.len()), "each is there once");
    for (at, one) in order.iter().enumerate() {
        for other in &order[at..] {
            prop_assert!(one <= other || !asked[*one].conflicts(asked[*other]), "{one} is behind {other}");
        }
    }
    let (mut at, mut merges) = (0, [0_u64; 2]);
    while at < given.len() {
        let parts = given[at].parts();
        for follower in at + 1..at + parts {
            let (before, entry) = (asked[order[follower - 1]], asked[order[follower]]);
            prop_assert_eq!(given[follower].role, MergeRole::Follows);
            match (before, entry) {
                (DrawnCommand::Read(at, len), DrawnCommand::Read(next, _)) => {
                    prop_assert_eq!(at + len, next);
                    merges[0] += 1;
                }
                (DrawnCommand::Write(at, len), DrawnCommand::Write(next, _)) => {
                    prop_assert_eq!(at + len, next);
                    merges[1] += 1;
                }
                pair => prop_assert!(false, "{pair:?} are merged"),
            }
        }
        prop_assert!(given[at].role != MergeRole::Follows && given[at].role != MergeRole::First(1));
        at += parts;
    }
    prop_assert_eq!([counts.reads, counts.writes], merges);
    let pairs = (0..asked.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
    if pairs.into_iter().all(|(one, other)| !asked[one].conflicts(asked[other])) {
        prop_assert_eq!(merges.iter().sum::<u64>(), neighbours(asked), "all neighbours are merged");
    }
    let (expected, given) = (done(expected), done(given));
    prop_assert!(content(&plain) == content(&merged), "each byte ends up as without merging");
    for (one, other) in expected.iter().zip(&given) {
        prop_assert!(*one.bytes == *other.bytes, "{:?} brings the same", one.operation);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn merged_or_not_all_bytes_end_up_alike(asked in vec(asked(), 0..12)) {
        check(&asked)?;
    }

    #[test]
    fn streams_in_any_order_are_merged_and_all_bytes_end_up_alike(asked in streams()) {
        check(&asked)?;
    }

    #[test]
    fn each_part_is_told_whether_it_is_whole(lens in vec(1..5_usize, 2..8), done in 0..40_usize) {
        let os = recording();
        let file = LockedFile::new(os.open(Path::new("/f"), PathPresence::New).expect("a file"), false);
        let parts = || lens.iter().zip(0..).map(|(len, number)| DrawnCommand::Write(0, *len).entry(number, &file));
        let (done, mut told) = (done.min(lens.iter().sum()), VecDeque::new());
        tell_parts(parts(), &Ok(done * BLOCK), &mut told);
        let mut end = 0;
        for (len, (_, result)) in lens.iter().zip(&told) {
            end += len;
            let is_whole = end <= done;
            prop_assert_eq!(result.as_ref().ok(), Some(&(if is_whole { len * BLOCK } else { 0 })));
        }
        told.clear();
        tell_parts(parts(), &Err(Errno::IO.into()), &mut told);
        let errors = told.iter().filter(|(_, result)| result.as_ref().is_err_and(|error| {
            Errno::from_io_error(error) == Some(Errno::IO)
        }));
        prop_assert_eq!(errors.count(), lens.len());
    }
}

#[test]
fn merged_operations_are_bounded() {
    let folder = folder();
    let file = LockedFile::new(RealOs.open(&folder.path().join("file"), PathPresence::New).expect("a file"), false);
    // So many parts, of so many bytes each.
    for (parts, bytes, runs) in [
        (2050, 512, vec![1024, 1024, 2]),
        (80, 32 << 10, vec![32, 32, 16]),
        (3, 33 << 10, vec![]),
        (3, 2 << 20, vec![]),
    ] {
        let buffer = Arc::new(AlignedBuffer::zeroed(bytes));
        let mut entries: RingEntries = (0..parts)
            .map(|command| RingEntry {
                role: MergeRole::Single,
                tag: OperationTag { dev: 0, life: 0, command },
                file: Arc::clone(&file),
                operation: FileOp::Write { offset: u64::from(command) * bytes as u64 },
                bytes: Arc::clone(&buffer),
                range: 0..bytes,
            })
            .collect();
        let counts = RequestMerger::default().merge(&mut entries);
        let found: Vec<_> = entries.iter().map(RingEntry::parts).filter(|parts| *parts > 1).collect();
        assert_eq!(found, runs, "{parts} of {bytes}");
        assert_eq!(counts.writes, runs.iter().map(|run| *run as u64 - 1).sum::<u64>());
    }
}
