//! Demands what a recording makes durable, and when. `crates/crash` tries the executor over it.

use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;

use destage_exec::{
    CrashChance, CrashSurvival, ExecutorFault, IoFault, OsFile, OsInterface, PathPresence, RecordingOs, SyncPoint,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Says yes to everything that survives by chance.
struct Kind;

impl CrashChance for Kind {
    fn below(&mut self, _: u64) -> u64 {
        0
    }
}

fn file(os: &RecordingOs) -> Arc<dyn OsFile> {
    os.open(Path::new("/a/b"), PathPresence::Either).expect("a file")
}

#[test]
fn only_what_was_synced_is_certain() {
    let os = RecordingOs::new(|_| Box::new(Kind));
    let made = file(&os);
    made.set_len(4).expect("room");
    made.sync_all(SyncPoint::CreateDevice).expect("it is synced");
    assert_eq!(os.cut(CrashSurvival::Nothing).content(Path::new("/a/b")), None, "its name is not durable");
    os.sync_folder(Path::new("/a"), SyncPoint::CreateFolder).expect("it is synced");
    made.write_all_at(b"one", 0).expect("room");
    assert_eq!(os.cut(CrashSurvival::Nothing).content(Path::new("/a/b")).as_deref(), Some(&[0; 4][..]));
    assert_eq!(os.cut(CrashSurvival::Everything).content(Path::new("/a/b")).as_deref(), Some(&b"one\0"[..]));
    assert_eq!(os.end(false).cut(CrashSurvival::Nothing).content(Path::new("/a/b")).as_deref(), Some(&[0; 4][..]));
    made.set_len(8).expect("room");
    made.sync_data(SyncPoint::Flush).expect("it is synced");
    assert_eq!(os.cut(CrashSurvival::Nothing).content(Path::new("/a/b")).map(|bytes| bytes.len()), Some(4));
    made.sync_all(SyncPoint::Flush).expect("it is synced");
    assert_eq!(os.cut(CrashSurvival::Nothing).content(Path::new("/a/b")).as_deref(), Some(&b"one\0\0\0\0\0"[..]));
}

#[test]
fn a_sync_covers_what_was_done_before_it_began() {
    let os = RecordingOs::new(|_| Box::new(Kind));
    let made = file(&os);
    os.sync_folder(Path::new("/a"), SyncPoint::CreateFolder).expect("it is synced");
    made.write_all_at(b"one", 0).expect("room");
    made.sync_begins();
    made.write_all_at(b"two", 3).expect("room");
    made.sync_data(SyncPoint::Flush).expect("it is synced");
    let found = |os: &RecordingOs| os.cut(CrashSurvival::Nothing).content(Path::new("/a/b"));
    assert_eq!(found(&os).as_deref(), Some(&b"one"[..]));
    // One that nobody said begins covers all; so does that of a process which comes later.
    made.sync_begins();
    let later = os.end(false);
    file(&later).sync_data(SyncPoint::Flush).expect("it is synced");
    assert_eq!(found(&later).as_deref(), Some(&b"onetwo"[..]));
    // The planted fault.
    os.plant(Some(ExecutorFault::OwnAlone));
    made.asked_by(1);
    made.write_all_at(b"six", 6).expect("room");
    made.sync_begins();
    made.sync_data(SyncPoint::Flush).expect("it is synced");
    assert_eq!(found(&os).as_deref(), Some(&b"one\0\0\0six"[..]));
}

#[test]
fn who_is_beside_hears_of_a_failed_sync_once_and_syncs_on_its_own_account() {
    let os = RecordingOs::new(|_| Box::new(Kind));
    os.set_sector_before(Path::new("/a/b"), 512, 2);
    let made = file(&os);
    os.sync_folder(Path::new("/a"), SyncPoint::CreateFolder).expect("it is synced");
    let beside = os.open(Path::new("/a/b"), PathPresence::Beside).expect("it is there");
    // A sync of the one that is under way says nothing of what the other has covered.
    made.write_all_at(b"one", 0).expect("room");
    made.sync_begins();
    beside.write_all_at(b"two", 3).expect("room");
    beside.sync_data(SyncPoint::Commit).expect("it is synced");
    let found = |os: &RecordingOs| os.cut(CrashSurvival::Nothing).content(Path::new("/a/b"));
    assert_eq!(found(&os).as_deref(), Some(&b"onetwo"[..]));
    made.sync_data(SyncPoint::Flush).expect("it is synced");
    os.fail_after(0, IoFault::Broken);
    assert!(made.sync_data(SyncPoint::Flush).is_err());
    assert!(beside.sync_data(SyncPoint::Commit).is_err(), "it is told as well");
    beside.sync_data(SyncPoint::Commit).expect("once");
    made.sync_data(SyncPoint::Flush).expect("and nothing more is said");
}

#[test]
fn a_success_after_a_failed_sync_says_nothing() {
    /// Lets nothing survive.
    struct Unkind;

    impl CrashChance for Unkind {
        fn below(&mut self, n: u64) -> u64 {
            n - 1
        }
    }

    let os = RecordingOs::new(|_| Box::new(Unkind));
    let made = file(&os);
    os.sync_folder(Path::new("/a"), SyncPoint::CreateFolder).expect("it is synced");
    made.write_all_at(b"one", 0).expect("room");
    os.fail_after(0, IoFault::NoRoom);
    assert!(made.sync_all(SyncPoint::Flush).is_err());
    made.sync_all(SyncPoint::Flush).expect("nothing is left to be synced");
    assert_eq!(os.content(Path::new("/a/b")).as_deref(), Some(&b"one"[..]), "a read shows it");
    assert_eq!(os.cut(CrashSurvival::Everything).content(Path::new("/a/b")).as_deref(), Some(&b""[..]), "it is gone");
}

#[test]
fn a_fault_of_one_buffer_of_several_comes_again_when_it_is_written_alone() {
    let os = RecordingOs::new(|_| Box::new(Kind));
    let made = file(&os);
    let buffers = [IoSlice::new(b"one"), IoSlice::new(b"two"), IoSlice::new(b"six")];
    assert_eq!(made.write_vectored_at(&buffers, 0).ok(), Some(9));
    os.fail_after(1, IoFault::NoRoom);
    assert!(made.write_vectored_at(&buffers, 9).is_err(), "the second fails");
    made.write_all_at(b"one", 9).expect("nothing is wrong with the first");
    assert!(made.write_all_at(b"two", 12).is_err(), "somebody hears of it");
    made.write_all_at(b"two", 12).expect("once");
    let mut read = [[0; 3]; 2];
    let [one, two] = &mut read;
    assert_eq!(made.read_vectored_at(&mut [IoSliceMut::new(one), IoSliceMut::new(two)], 9).ok(), Some(6));
    assert_eq!(read.as_flattened(), b"onetwo");
    // So many are done in part, to the end of some sector.
    let sectors = [[7; 512]; 3];
    let written = made.write_vectored_at(&sectors.each_ref().map(|sector| IoSlice::new(sector)), 512);
    assert_eq!(written.ok(), Some(512));
}

/// Does something to a file: writes bytes, makes some zeros, or gives it a length.
#[derive(Clone, Debug)]
enum FileOperation {
    Write(u64, Vec<u8>),
    Punch(u64, u64),
    SetLen(u64),
}

fn file_operation() -> impl Strategy<Value = FileOperation> {
    let place = || 0_u64..20_000;
    prop_oneof![
        (place(), vec(1_u8.., 1..9_000)).prop_map(|(offset, bytes)| FileOperation::Write(offset, bytes)),
        (place(), 1_u64..9_000).prop_map(|(offset, len)| FileOperation::Punch(offset, len)),
        place().prop_map(FileOperation::SetLen),
    ]
}

proptest! {
    /// Holds a file and what is left of it at every moment against plain bytes.
    #[test]
    fn a_file_is_its_bytes_and_what_is_left_of_it_stays_so(operations in vec(file_operation(), 1..24)) {
        let os = RecordingOs::new(|_| Box::new(Kind));
        let (made, mut expected, mut left) = (file(&os), Vec::new(), Vec::new());
        for operation in operations {
            match operation {
                FileOperation::Write(offset, bytes) => {
                    made.write_all_at(&bytes, offset).expect("room");
                    let end = offset as usize + bytes.len();
                    expected.resize(expected.len().max(end), 0);
                    expected[offset as usize..end].copy_from_slice(&bytes);
                }
                FileOperation::Punch(offset, len) => {
                    made.punch_hole(offset, len).expect("it can");
                    let end = expected.len().min((offset + len) as usize);
                    expected.get_mut(offset as usize..end).into_iter().for_each(|range| range.fill(0));
                }
                FileOperation::SetLen(len) => {
                    made.set_len(len).expect("room");
                    expected.resize(len as usize, 0);
                }
            }
            left.push((os.end(false), expected.clone()));
        }
        for (os, expected) in left {
            prop_assert!(os.content(Path::new("/a/b")).as_ref() == Some(&expected));
            let len = expected.len();
            for (begin, end) in [(0, len), (len / 3, len), (len / 2, len / 2 + len / 5), (len.saturating_sub(1), len)] {
                let mut bytes = vec![9; end - begin];
                file(&os).read_exact_at(&mut bytes, begin as u64).expect("it has them");
                prop_assert!(bytes == expected[begin..end]);
            }
            prop_assert!(file(&os).read_exact_at(&mut [0; 2], (len as u64).saturating_sub(1)).is_err());
        }
    }
}
