//! Checks that a service with few file descriptors, or none, carries out orders.

use std::os::unix::net::UnixStream;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::{Array, IoMode, page};

io_mode_tests! {
    clients_leave_descriptors_to_orders,
    orders_come_by_the_descriptor_in_reserve,
    who_gives_no_order_keeps_no_other_from_it,
}

/// Opens so many connections that say nothing.
fn silent(array: &Array, socket: &str, number: usize) -> Vec<UnixStream> {
    (0..number).map(|_| UnixStream::connect(array.file(socket)).expect("it is listened to")).collect()
}

fn clients_leave_descriptors_to_orders(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "write-back", "--cache", "1MiB"]);
    array.serve_limited("-n 64");
    let mut client = array.client();
    client.write(0, &page(1), false).expect("a write");
    let idle = silent(&array, "nbd.sock", 100);
    client.read(0, &mut [0; 4096]).expect("it goes on");
    let status = array.status();
    let now = status["clients"]["now"].as_u64().expect("a count");
    assert!((20..64).contains(&now), "{status}");
    assert!(array.log().contains(&format!("{now} at a time at most")), "{}", array.log());
    // One more had come to see whether it serves.
    let turned_away = status["clients"]["turned_away"].as_u64();
    assert!(turned_away >= Some(100 - now) && turned_away <= Some(102 - now), "{status}");
    for device in ["1", "cache"] {
        let another = array.folder.path().join(device).display().to_string();
        let replaced = array.command("replace", &[device, &another]);
        assert!(replaced.status.success(), "{device}: {}", String::from_utf8_lossy(&replaced.stderr));
    }
    let mut bytes = vec![0; 4096];
    client.read(0, &mut bytes).expect("it goes on");
    assert!(bytes == page(1));
    // There is room again when somebody has gone.
    drop(idle);
    assert!(array.status()["clients"]["now"] == 1, "{}", array.status());
    array.client().read(0, &mut bytes).expect("it is let in");
    array.stop();
}

fn orders_come_by_the_descriptor_in_reserve(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    array.serve(&[]);
    let mut client = array.client();
    let pid = Pid::from_child(array.service.as_ref().expect("it is served"));
    let open = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).expect("its descriptors");
    let numbers = open.map(|entry| entry.expect("one").file_name().to_string_lossy().parse::<u64>().expect("a number"));
    let taken: Vec<_> = numbers.collect();
    let free = (0..1024).find(|number| !taken.contains(number)).expect("few are taken");
    // Ours is what it has raised its own to.
    let most = getrlimit(Resource::Nofile).maximum;
    let limit = |current| {
        prlimit(Some(pid), Resource::Nofile, Rlimit { current, maximum: most }).expect("its limit can be changed");
    };
    limit(Some(free));
    let _waiting = silent(&array, "nbd.sock", 5);
    for _ in 0..3 {
        let status = array.status();
        assert_eq!(status["clients"]["now"], 1, "{status}");
    }
    client.read(0, &mut [0; 4096]).expect("it goes on");
    limit(most);
    array.client().read(0, &mut [0; 4096]).expect("it is let in once there is room");
    limit(Some(free));
    array.stop();
}

fn who_gives_no_order_keeps_no_other_from_it(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    array.serve(&[]);
    let _silent = silent(&array, "control.sock", 30);
    array.status();
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..20).map(|_| scope.spawn(|| array.command("flush", &[]))).collect();
        for output in asked.into_iter().map(|asked| asked.join().expect("it does not panic")) {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    });
    array.stop();
}
