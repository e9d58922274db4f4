//! Checks what the backend is asked for by each command of NBD with each of its flags.

use std::sync::atomic::Ordering;
use std::time::Duration;

use destage_nbd::client::blocking::ClientError;
use destage_nbd::{Errno, NbdCommand};
use destage_plan::HostOp;

use crate::served::{BYTES, TestService};

#[test]
fn each_command_and_flag_has_its_effect() {
    let served = TestService::new(false);
    let mut client = served.client();
    let zeroes = |no_hole| NbdCommand::WriteZeroes { no_hole, fast: false };
    let flush = (HostOp::Flush, false, 0, 0);
    let rows = [
        (NbdCommand::Trim, false, vec![(HostOp::Discard, false, 4096, 8192)]),
        (NbdCommand::Trim, true, vec![(HostOp::Discard, false, 4096, 8192), flush]),
        (zeroes(false), false, vec![(HostOp::WriteZeroesUnmap, false, 4096, 8192)]),
        (zeroes(false), true, vec![(HostOp::WriteZeroesUnmap, false, 4096, 8192), flush]),
        (zeroes(true), false, vec![(HostOp::WriteZeroes, false, 4096, 8192)]),
        (zeroes(true), true, vec![(HostOp::WriteZeroes, false, 4096, 8192), flush]),
        (NbdCommand::Cache, false, vec![(HostOp::Read, false, 4096, 8192)]),
    ];
    let asked = || -> Vec<_> {
        let asked = std::mem::take(&mut *served.asked.lock().expect("nobody panics"));
        asked.into_iter().map(|one| (one.op, one.fua, one.offset, one.len)).collect()
    };
    for (command, fua, wanted) in rows {
        client.tell(command, fua, 4096, 8192).expect("it is served");
        assert_eq!(asked(), wanted, "{command:?}, FUA {fua}");
    }
    for fua in [false, true] {
        client.write(4096, &[1; 8192], fua).expect("it is served");
        assert_eq!(asked(), [(HostOp::Write, fua, 4096, 8192)]);
    }
    client.read(4096, &mut [0; 8192]).expect("it is served");
    assert_eq!(asked(), [(HostOp::Read, false, 4096, 8192)]);
    client.flush().expect("it is served");
    assert_eq!(asked(), [flush]);
    // Zeroes are not faster than what they are written with, which is said at once; so is that a trim is beyond the end.
    let told = client.tell(NbdCommand::WriteZeroes { no_hole: false, fast: true }, false, 4096, 8192);
    assert!(matches!(told, Err(ClientError::Failed { errno: Errno::NotSup, .. })), "{told:?}");
    assert!(client.tell(NbdCommand::Trim, true, BYTES as u64, 4096).is_err());
    assert_eq!(asked(), []);
    client.goodbye().expect("a goodbye");
    served.stop().expect("nothing is left");
}

#[test]
fn what_is_to_be_durable_is_answered_when_it_is() {
    let served = TestService::new(false);
    served.holds_flushes.store(true, Ordering::Relaxed);
    let zeroes = NbdCommand::WriteZeroes { no_hole: false, fast: false };
    for command in [NbdCommand::Trim, zeroes, NbdCommand::Flush] {
        std::thread::scope(|scope| {
            let mut client = served.client();
            let told = scope.spawn(move || {
                let (fua, length) = if command == NbdCommand::Flush { (false, 0) } else { (true, 4096) };
                client.tell(command, fua, 0, length)
            });
            let mut other = served.client();
            for _ in 0..20 {
                // It takes in what has ended whenever somebody asks for something.
                other.read(0, &mut [0; 512]).expect("others are served");
                assert!(!told.is_finished(), "{command:?} is answered before the flush is done");
                std::thread::sleep(Duration::from_millis(2));
            }
            served.holds_flushes.store(false, Ordering::Relaxed);
            while !told.is_finished() {
                other.read(0, &mut [0; 512]).expect("others are served");
            }
            told.join().expect("it does not panic").expect("it is served");
            served.holds_flushes.store(true, Ordering::Relaxed);
        });
    }
    served.stop().expect("nothing is left");
}
