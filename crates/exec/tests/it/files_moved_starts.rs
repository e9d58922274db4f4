//! Starts without the device on which the NVRAM lies: it goes on in its spare place.

use std::path::Path;
use std::sync::Arc;

use destage_exec::{AcceptedLosses, BadBytes, FileExecutor, FilesError, NvramPlace};
use destage_plan::Dev;
use destage_raid::array::DurabilityMode;

use crate::moving_array::{CACHE, CACHES, MovingArray, accepted, check, config, home, open, spare};

const ALL: AcceptedLosses = AcceptedLosses { data: true, notes: true };

/// Lists what may be wrong with the device.
const WAYS: [&str; 4] = ["missing", "broken", "unreadable", "another"];

fn spoil(moving: &MovingArray, os: &destage_exec::RecordingOs, way: &str) {
    match way {
        "missing" => os.take_away(&home()),
        "broken" => os.set_broken(&home(), true),
        "another" => os.put(&home(), &vec![7; config(&moving.array).file_bytes(4) as usize]),
        _ => {
            let length = config(&moving.array).file_bytes(4);
            let content = os.content(&home()).expect("it is there");
            let at = content.windows(8).position(|bytes| bytes == b"dstgNVRM").expect("an NVRAM") as u64;
            os.spoil(&home(), at..length, BadBytes::Unreadable);
        }
    }
}

#[test]
fn a_start_without_the_device_goes_on_where_nothing_is_lost() {
    for name in CACHES {
        for way in WAYS {
            for stops in [false, true] {
                let mut moving = MovingArray::new(name, DurabilityMode::Flush, 3);
                moving.work(40).expect("it is served");
                moving.settle().expect("it comes to rest");
                let left = moving.os.clone();
                let (array, mut model) = (moving.array, moving.model.clone());
                let left = if stops {
                    let (files, os) = (moving.files, left);
                    files.stop_clean().expect("it stops");
                    moving = MovingArray::new(name, DurabilityMode::Flush, 3);
                    os.end(false)
                } else {
                    left.end(false)
                };
                spoil(&moving, &left, way);
                let opened = open(&left, &array, accepted(name));
                let opened = match opened {
                    Err(error) if name == "write-back" && !stops => {
                        let is_named =
                            matches!(&error, FilesError::LostForGood { path, data: true, .. } if *path == home());
                        assert!(is_named && error.to_string().contains("--accept-losses"), "{error}");
                        // Nothing has changed by that.
                        if way == "broken" {
                            let again = left.end(false);
                            again.set_broken(&home(), false);
                            let mut files = open(&again, &array, accepted(name)).expect("it is back");
                            assert!(files.resynchronised().is_none());
                            assert_eq!(check(&mut files, &mut model.clone(), false).expect("it is served"), 0);
                        }
                        open(&left, &array, ALL).expect("that is accepted");
                        continue;
                    }
                    opened => opened.unwrap_or_else(|error| panic!("{name} {way}: {error}")),
                };
                let mut files = opened;
                let done = files.resynchronised().expect("the NVRAM is lost");
                assert_eq!(done.lost, [home()], "{name} {way}");
                assert!(done.rows < done.of, "{name} {way}: {} of {}", done.rows, done.of);
                assert_eq!(files.config().nvram, NvramPlace::Own(spare()), "{name} {way}");
                assert!(!files.answers(CACHE), "{name} {way}: the cache is lost");
                let failed = check(&mut files, &mut model, false);
                let failed = failed.unwrap_or_else(|error| panic!("{name} {way}, stopped {stops}: {error}"));
                assert_eq!(failed, 0, "{name} {way}");
                let mut moving = MovingArray::with(left, array, files, model);
                moving.files.replace(CACHE, Path::new("/array/new")).expect("it can be replaced");
                moving.work(30).expect("it is served");
                moving.settle().expect("it comes to rest");
                // What comes back is not the array's any more, and the next start finds the NVRAM by itself.
                let left = moving.os.end(false);
                left.set_broken(&home(), false);
                let mut later = config(&moving.array);
                later.devices[4].path = "/array/new".into();
                let os = Arc::new(left);
                let opened = FileExecutor::resynchronise_on(os, moving.array.controller(), later, accepted(name));
                let mut files = opened.expect("the array is there");
                assert!(files.resynchronised().is_none() && files.answers(CACHE), "{name} {way}");
                assert_eq!(check(&mut files, &mut moving.model, false).expect("it is served"), 0, "{name} {way}");
            }
        }
    }
}

/// Takes a member away as well: the parity of rows that were being written may say nothing of what it held.
#[test]
fn a_start_without_a_member_as_well_is_refused_and_changes_nothing() {
    let mut moving = MovingArray::new("kdd", DurabilityMode::Flush, 3);
    moving.work(40).expect("it is served");
    moving.settle().expect("it comes to rest");
    let (member, mut model) = (Path::new("/array/dev1"), moving.model.clone());
    let left = moving.os.end(false);
    left.set_broken(member, true);
    left.set_broken(&home(), true);
    let error = open(&left, &moving.array, accepted("kdd")).map(|_| ()).expect_err("both are missing");
    assert!(matches!(&error, FilesError::HomeAndMembersLost { path, members: 1, .. } if *path == home()), "{error}");
    assert!(error.to_string().contains("1 members are missing as well"), "{error}");
    for back in [member, &home()] {
        let again = left.end(false);
        again.set_broken(back, false);
        let mut files = open(&again, &moving.array, accepted("kdd")).expect("one of them is back");
        assert_eq!(files.resynchronised().is_some(), back == member);
        match check(&mut files, &mut model.clone(), false) {
            // Rows that were being written without a member are refused, whatever the NVRAM lies on.
            Err(FilesError::Refused(_)) if back != member => {}
            checked => assert_eq!(checked.expect("it is served"), 0),
        }
    }
    let mut files = open(&left, &moving.array, ALL).expect("that is accepted");
    assert!(files.resynchronised().is_some() && !files.answers(Dev(1)));
    // What was given up is named by the controller.
    match check(&mut files, &mut model, true) {
        Ok(_) | Err(FilesError::Refused(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Names no spare place: the array is refused, as ever.
#[test]
fn without_a_spare_place_the_device_is_made_anew_or_waited_for() {
    let mut moving = MovingArray::new("kdd", DurabilityMode::Flush, 3);
    moving.work(40).expect("it is served");
    let left = moving.os.end(false);
    left.set_broken(&home(), true);
    let mut none = config(&moving.array);
    none.spare_nvram = None;
    let os = Arc::new(left);
    let error =
        FileExecutor::resynchronise_on(os, moving.array.controller(), none, accepted("kdd")).expect_err("it is away");
    assert!(matches!(error, FilesError::NvramAway { .. }), "{error}");
}
