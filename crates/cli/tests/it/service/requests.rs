//! Checks the answers to requests of clients, for every cache.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use destage_nbd::client::blocking::{BlockingConnection, ClientError, ExportRequest};
use destage_nbd::{Errno, NbdCommand, StatusExtent};

use super::{ARRAYS, Array, Draws, IoMode, page, pages};

io_mode_tests! {
    what_is_written_is_read_during_the_life_and_in_the_next,
    the_longest_requests_are_served,
    parts_of_pages_are_written_and_read,
    a_flush_covers_what_other_connections_were_answered,
    many_clients_at_once_have_their_own_pages,
    an_export_can_be_read_only_and_have_a_name,
    a_client_is_told_what_is_not_on_the_members_yet,
    zeros_take_no_room_unless_they_are_to,
    zeros_are_fast_where_whole_stripes_are_trimmed,
}

/// Pages of the array: three of four members of 2 MiB.
const PAGES: u64 = 3 * 512;

fn what_is_written_is_read_during_the_life_and_in_the_next(io_mode: IoMode) {
    for settings in ARRAYS {
        let mut array = Array::new(io_mode, settings);
        let mut draws = Draws(7);
        let mut content = vec![0_u64; PAGES as usize];
        for life in 0..2 {
            array.serve(&[]);
            let mut client = array.client();
            for step in 0..400 {
                let at = draws.below(PAGES - 8);
                let run = 1 + draws.below(8) as usize;
                let place = at as usize..at as usize + run;
                match draws.below(10) {
                    0..5 => {
                        let first = 1 + life * 10_000 + step * 10;
                        let bytes = pages((first..).take(run));
                        client.write(at * 4096, &bytes, draws.below(4) == 0).expect("a write");
                        content[place].iter_mut().zip(first..).for_each(|(page, number)| *page = number);
                    }
                    5 => {
                        let zeroes = NbdCommand::WriteZeroes { no_hole: draws.below(2) == 0, fast: false };
                        client.tell(zeroes, draws.below(2) == 0, at * 4096, run as u32 * 4096).expect("zeroes");
                        content[place].fill(0);
                    }
                    6 => client.flush().expect("a flush"),
                    7 => client.tell(NbdCommand::Cache, false, at * 4096, run as u32 * 4096).expect("made ready"),
                    _ => {
                        let mut bytes = vec![0; run * 4096];
                        client.read(at * 4096, &mut bytes).expect("a read");
                        check(&bytes, &content[place], settings);
                    }
                }
            }
            client.goodbye().expect("a goodbye");
            array.stop();
        }
        array.serve(&[]);
        let mut bytes = vec![0; PAGES as usize * 4096];
        array.client().read(0, &mut bytes).expect("a read of all");
        check(&bytes, &content, settings);
        array.stop();
    }
}

/// Serves requests as long as they may be, also beside the beginning of a stripe.
fn the_longest_requests_are_served(io_mode: IoMode) {
    const AT: u64 = 5 * 4096;
    for (settings, fua) in [(ARRAYS[3], false), (ARRAYS[9], true)] {
        let mut array = Array::sized(io_mode, "22MiB", settings);
        array.serve(&[]);
        let bytes = pages(1..=(64 << 20) / 4096);
        let mut client = array.client();
        client.write(AT, &bytes, fua).expect("a write");
        let mut read = vec![0; bytes.len()];
        client.read(AT, &mut read).expect("a read");
        assert!(read == bytes, "{settings:?}");
        array.stop();
    }
}

/// Bytes that the members take on their file system.
fn allocated(array: &Array) -> u64 {
    (0..4).map(|dev| fs::metadata(array.file(&format!("member{dev}"))).expect("a member").blocks() * 512).sum()
}

fn zeros_take_no_room_unless_they_are_to(io_mode: IoMode) {
    const MIB: u64 = 1 << 20;
    const LEN: u32 = 16 << 20;
    for settings in [ARRAYS[0], ARRAYS[5]] {
        let mut array = Array::sized(io_mode, "8MiB", settings);
        array.serve(&[]);
        let mut client = array.client();
        let bytes = pages(1..=(24 << 20) / 4096);
        client.write(0, &bytes, true).expect("a write");
        let full = allocated(&array);
        let zeros = |no_hole| NbdCommand::WriteZeroes { no_hole, fast: false };
        // From the middle of a page to the middle of another.
        let (from, len) = (MIB + 512, LEN + 1024);
        client.tell(zeros(false), true, from, len).expect("zeros");
        let holes = allocated(&array);
        assert!(holes < full - u64::from(LEN), "{settings:?}: {full} B became {holes}");
        let mut right = bytes.clone();
        right[from as usize..][..len as usize].fill(0);
        let mut read = vec![0; bytes.len()];
        client.read(0, &mut read).expect("a read");
        assert!(read == right, "{settings:?}");
        client.tell(zeros(true), true, from, len).expect("zeros");
        let taken = allocated(&array);
        assert!(taken >= holes + u64::from(LEN), "{settings:?}: {holes} B became {taken}");
        client.read(0, &mut read).expect("a read");
        assert!(read == right, "{settings:?}, with room for them");
        array.stop();
    }
}

fn zeros_are_fast_where_whole_stripes_are_trimmed(io_mode: IoMode) {
    const STRIPE: u64 = 3 * (64 << 10);
    for settings in ARRAYS {
        let mut array = Array::new(io_mode, settings);
        array.serve(&[]);
        let mut client = array.client();
        let bytes = pages(1..=PAGES);
        client.write(0, &bytes, true).expect("a write");
        assert!(array.command("flush", &[]).status.success());
        let members = |array: &Array| -> (u64, u64) {
            let status = array.status();
            let count = |field: &str, dev: usize| status["array"]["devices"][dev][field].as_u64().expect("a count");
            ((0..4).map(|dev| count("trims", dev)).sum(), (0..4).map(|dev| count("written_bytes", dev)).sum())
        };
        let fast = |client: &mut BlockingConnection<UnixStream>, no_hole, offset, len: u64| {
            client.tell(NbdCommand::WriteZeroes { no_hole, fast: true }, false, offset, len as u32)
        };
        let slow = |told: Result<(), ClientError>, what: &str| {
            assert!(
                matches!(told, Err(ClientError::Failed { errno: Errno::NotSup, .. })),
                "{settings:?}, {what}: {told:?}"
            );
        };
        slow(fast(&mut client, true, 0, 4 * STRIPE), "with room for them");
        slow(fast(&mut client, false, 4096, 2 * STRIPE - 8192), "no whole stripe");
        slow(fast(&mut client, false, STRIPE + 1, STRIPE - 1), "no whole stripe, but for a byte");
        let before = members(&array);
        let told = fast(&mut client, false, STRIPE, 4 * STRIPE);
        let mut right = bytes;
        if ["write-back", "wow", "iwc", "lawc"].contains(&settings[1]) {
            slow(told, "zeros are written");
        } else {
            told.unwrap_or_else(|why| panic!("{settings:?}: {why}"));
            right[STRIPE as usize..5 * STRIPE as usize].fill(0);
            let after = members(&array);
            assert!(after.0 > before.0, "{settings:?}: nothing is trimmed");
            assert_eq!(after.1, before.1, "{settings:?}: zeros are written");
        }
        let mut read = vec![0; right.len()];
        client.read(0, &mut read).expect("a read");
        assert!(read == right, "{settings:?}");
        // With a member lost its zeros would be written to the NVRAM.
        assert!(array.command("fail", &["1"]).status.success());
        slow(fast(&mut client, false, STRIPE, 4 * STRIPE), "degraded");
        client.goodbye().expect("a goodbye");
        array.stop();
    }
}

fn check(bytes: &[u8], content: &[u64], settings: &[&str]) {
    for (at, (found, number)) in bytes.chunks(4096).zip(content).enumerate() {
        let right = if *number == 0 { found.iter().all(|byte| *byte == 0) } else { found == page(*number) };
        assert!(right, "{settings:?}: page {at} of the read is not version {number}");
    }
}

fn parts_of_pages_are_written_and_read(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
    array.serve(&[]);
    let mut client = array.client();
    client.write(4096, &page(1), false).expect("a write");
    client.write(4096 + 512, &[7; 1024], false).expect("a write of two sectors");
    let mut bytes = vec![0; 4096];
    client.read(4096, &mut bytes).expect("a read");
    let mut right = page(1);
    right[512..1536].fill(7);
    assert!(bytes == right);
    let mut sector = [0; 512];
    client.read(4096 + 1024, &mut sector).expect("a read of one sector");
    assert_eq!(sector, [7; 512]);
    client.tell(NbdCommand::Trim, true, 4096, 4096).expect("a trim");
    let found = client.status(0, 8192, false);
    assert!(found.is_err(), "no context was chosen: {found:?}");
    client.flush().expect("it goes on after refusals");
}

fn a_flush_covers_what_other_connections_were_answered(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "write-back", "--cache", "1MiB"]);
    for round in 0..4 {
        array.serve(&[]);
        let (mut one, mut other) = (array.client(), array.client());
        for at in 0..16 {
            one.write(at * 4096, &page(100 * round + at), false).expect("a write");
        }
        other.flush().expect("a flush");
        array.kill();
        array.serve(&[]);
        let mut bytes = vec![0; 4096];
        let mut client = array.client();
        for at in 0..16 {
            client.read(at * 4096, &mut bytes).expect("a read");
            assert!(bytes == page(100 * round + at), "page {at} of round {round}");
        }
        array.stop();
    }
}

fn many_clients_at_once_have_their_own_pages(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
    array.serve(&[]);
    std::thread::scope(|scope| {
        for client in 0..8 {
            let array = &array;
            scope.spawn(move || {
                let mut draws = Draws(client);
                let mut connection = array.client();
                let mut versions = [0; 64];
                for version in 1..200 {
                    let at = draws.below(64);
                    let offset = (client * 64 + at) * 4096;
                    if draws.below(2) == 0 {
                        versions[at as usize] = version;
                        connection.write(offset, &page(client << 20 | version), version % 8 == 0).expect("a write");
                    } else if versions[at as usize] > 0 {
                        let mut bytes = vec![0; 4096];
                        connection.read(offset, &mut bytes).expect("a read");
                        assert!(bytes == page(client << 20 | versions[at as usize]), "page {at} of client {client}");
                    }
                }
            });
        }
    });
    let status = array.status();
    assert!(status["clients"]["came"].as_u64() >= Some(8), "{status}");
    array.stop();
}

fn an_export_can_be_read_only_and_have_a_name(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    array.serve(&["--read-only", "--name", "disk"]);
    let mut client = array.client();
    client.read(0, &mut [0; 4096]).expect("a read");
    let refused = format!("{:?}", client.write(0, &page(1), false));
    assert!(refused.contains("Perm") || refused.contains("NotOffered") || refused.contains("ReadOnly"), "{refused}");
    array.stop();
}

/// Checks `destage:state`: which pages the members do not have yet, and which the parity does not cover.
fn a_client_is_told_what_is_not_on_the_members_yet(io_mode: IoMode) {
    for (policy, mark) in [("none", 0), ("write-through", 0), ("write-back", 1), ("kdd", 2)] {
        let size: &[&str] = if policy == "none" { &[] } else { &["--cache", "1MiB"] };
        // Nothing is cleaned while nothing is asked for.
        let policy = if mark == 0 { policy.to_owned() } else { format!("{policy}:clean-after=1h") };
        let mut array = Array::new(io_mode, &[&["--policy", &policy], size].concat());
        array.serve(&[]);
        let stream = UnixStream::connect(array.file("nbd.sock")).expect("the service takes clients");
        let contexts = ["base:allocation", "destage:state"];
        let wanted = ExportRequest { structured: true, contexts: &contexts, ..ExportRequest::default() };
        let mut client = BlockingConnection::begin(stream, &wanted).expect("the export is there");
        let told = |client: &mut BlockingConnection<UnixStream>, offset, length| {
            let all = client.status(offset, length, false).expect("a status");
            let of =
                |number: u32| all.iter().filter(|(context, _)| *context == number).map(|(_, extent)| *extent).collect();
            let (first, second) = (all[0].0, all[all.len() - 1].0);
            assert_ne!(first, second);
            let (there, state): (Vec<StatusExtent>, Vec<StatusExtent>) = (of(first), of(second));
            assert_eq!(there, [StatusExtent { length: length.into(), flags: 0 }]);
            state.iter().map(|extent| (extent.length, extent.flags)).collect::<Vec<_>>()
        };
        let all = (PAGES * 4096) as u32;
        let marked = match mark {
            0 => vec![(u64::from(all), 0)],
            _ => vec![(16 * 4096, 0), (2 * 4096, mark), (u64::from(all) - 18 * 4096, 0)],
        };
        // At least twice: kdd covers the first version of a page, and every further one that comes before the first is in
        // its frame.
        for version in 1..1000 {
            client.write(16 * 4096, &[page(version), page(version)].concat(), false).expect("a write");
            if version > 1 && told(&mut client, 0, all) == marked {
                break;
            }
        }
        assert_eq!(told(&mut client, 0, all), marked, "{policy}");
        // Parts of pages, too.
        assert_eq!(told(&mut client, 17 * 4096 + 512, 1024), [(1024, mark)], "{policy}");
        assert_eq!(
            told(&mut client, 16 * 4096 - 512, 1024),
            if mark == 0 { vec![(1024, 0)] } else { vec![(512, 0), (512, mark)] }
        );
        let flushed = array.command("flush", &[]);
        assert!(flushed.status.success(), "{policy}: {}", String::from_utf8_lossy(&flushed.stderr));
        assert_eq!(told(&mut client, 0, all), [(u64::from(all), 0)], "{policy}: all is on the members, and covered");
        client.goodbye().expect("a goodbye");
        array.stop();
    }
}
