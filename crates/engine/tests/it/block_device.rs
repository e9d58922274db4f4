//! Checks the kernel's block device beside the clients, over a model of its driver.

use std::collections::BTreeMap;

use destage_engine::{ControlReply, ServiceCommand, ServiceError, ServiceEvent};
use destage_plan::HostOp;
use destage_ublk::abi::{IO_FUA, IO_NOUNMAP, OP_DISCARD, OP_FLUSH, OP_READ, OP_WRITE, OP_WRITE_ZEROES};

use crate::driver::{DriverModel, KernelRequest};
use crate::served::{BYTES, ShuffleRng, TestService};

const SECTORS: u64 = BYTES as u64 / 512;
const IO: i32 = -5;

fn ask(id: usize, op: u8, first: u64, sectors: u32) -> KernelRequest {
    KernelRequest { id, op, flags: 0, first, sectors, data: Vec::new() }
}

fn write(id: usize, first: u64, data: Vec<u8>) -> KernelRequest {
    KernelRequest { sectors: data.len() as u32 / 512, data, ..ask(id, OP_WRITE, first, 0) }
}

/// Asks for whatever comes to mind, never twice for the same sectors at a time, and keeps what has to be read.
struct KernelHistory {
    driver: DriverModel,
    draws: ShuffleRng,
    /// Is what each sector holds, if that is known.
    content: Vec<Option<u8>>,
    /// Lists what is under way, with what a read has to read.
    pending: BTreeMap<usize, (KernelRequest, Vec<Option<u8>>)>,
    asked: usize,
}

impl KernelHistory {
    fn new(driver: DriverModel, seed: u64) -> Self {
        let content = vec![Some(0); SECTORS as usize];
        Self { driver, draws: ShuffleRng(seed), content, pending: BTreeMap::new(), asked: 0 }
    }

    fn go_on(&mut self, depth: usize) {
        if self.pending.len() < depth {
            self.begin();
        }
        for (id, answered) in self.driver.take_answered() {
            let (asked, expected) = self.pending.remove(&id).expect("each is answered once");
            let read = answered.unwrap_or_else(|error| panic!("{asked:?} failed: {error}"));
            for (sector, expected) in read.chunks(512).zip(expected) {
                if let Some(expected) = expected {
                    assert!(sector.iter().all(|byte| *byte == expected), "{asked:?}: {} is not {expected}", sector[0]);
                }
            }
        }
    }

    fn begin(&mut self) {
        let op =
            [OP_READ, OP_WRITE, OP_WRITE, OP_READ, OP_FLUSH, OP_DISCARD, OP_WRITE_ZEROES][self.draws.below(7) as usize];
        let sectors = if op == OP_FLUSH { 0 } else { 1 + self.draws.below(1 << self.draws.clone().below(9)) };
        let first = self.draws.below(SECTORS - sectors + 1);
        let (first, range) = if op == OP_FLUSH { (0, 0..0) } else { (first, first..first + sectors) };
        let overlaps = |(other, _): &(KernelRequest, _)| {
            other.first < range.end && range.start < other.first + u64::from(other.sectors)
        };
        if self.pending.values().any(overlaps) {
            return;
        }
        self.asked += 1;
        let mut asked = ask(self.asked, op, first, sectors as u32);
        let place = range.start as usize..range.end as usize;
        let mut expected = Vec::new();
        match op {
            OP_READ => expected = self.content[place].to_vec(),
            OP_WRITE => {
                for sector in &mut self.content[place] {
                    let byte = self.draws.below(256) as u8;
                    *sector = Some(byte);
                    asked.data.extend([byte; 512]);
                }
                asked.flags = if self.draws.below(3) == 0 { IO_FUA } else { 0 };
            }
            OP_WRITE_ZEROES => {
                self.content[place].fill(Some(0));
                asked.flags = if self.draws.below(2) == 0 { IO_NOUNMAP } else { 0 };
            }
            OP_DISCARD => self.content[place].fill(None),
            _ => {}
        }
        self.pending.insert(self.asked, (asked.clone(), expected));
        self.driver.ask(asked);
    }
}

#[test]
fn what_the_kernel_asks_for_is_done_once_and_reads_read_it() {
    for seed in 0..24 {
        let depth = [1, 2, 8, 64][seed as usize % 4];
        let driver = DriverModel::new(depth, seed);
        if seed % 3 > 0 {
            driver.set_short();
        }
        let served = TestService::with_device(&driver, seed);
        // More than there are tags wait in the kernel.
        let mut history = KernelHistory::new(driver, seed);
        while history.asked < 600 {
            history.go_on(2 * usize::from(depth));
        }
        while !history.pending.is_empty() {
            history.go_on(0);
        }
        // The service itself makes sure that nothing is held when it ends.
        assert_eq!(served.status().block_device.as_deref(), Some("/dev/ublkb0"));
        served.stop().expect("it ends in order");
        assert_eq!(history.driver.ends(), (true, true));
    }
}

#[test]
fn each_request_asks_the_array_for_what_it_says() {
    let driver = DriverModel::new(4, 1);
    let served = TestService::with_device(&driver, 0);
    driver.ask(write(1, 8, vec![7; 4096]));
    driver.ask(KernelRequest { flags: IO_FUA, ..write(2, 16, vec![8; 512]) });
    driver.ask(ask(3, OP_FLUSH, 0, 0));
    driver.ask(ask(4, OP_DISCARD, 32, 8));
    driver.wait(4);
    driver.ask(ask(5, OP_WRITE_ZEROES, 64, 8));
    driver.ask(KernelRequest { flags: IO_NOUNMAP, ..ask(6, OP_WRITE_ZEROES, 80, 8) });
    driver.wait(2);
    // What the driver of a later kernel may ask for.
    driver.ask(ask(7, 13, 0, 8));
    driver.ask(ask(8, OP_READ, SECTORS - 1, 2));
    let mut refused = driver.wait(2);
    refused.sort_by_key(|(id, _)| *id);
    assert_eq!(refused, [(7, Err(-95)), (8, Err(-22))]);
    let asked = served.asked.lock().expect("nobody panics").clone();
    let mut seen: Vec<_> = asked.iter().map(|asked| (asked.op as u8, asked.offset, asked.len, asked.fua)).collect();
    // The first of all was the kernel's look for partitions.
    assert_eq!(seen.remove(0), (HostOp::Read as u8, 0, 4096, false));
    seen.sort_unstable();
    let mut expected = [
        (HostOp::Write, 4096, 4096, false),
        (HostOp::Write, 8192, 512, true),
        (HostOp::Flush, 0, 0, false),
        (HostOp::Discard, 16 << 10, 4096, false),
        (HostOp::WriteZeroesUnmap, 32 << 10, 4096, false),
        (HostOp::WriteZeroes, 40 << 10, 4096, false),
    ]
    .map(|(op, offset, len, fua)| (op as u8, offset, len, fua));
    expected.sort_unstable();
    assert_eq!(seen, expected);
    served.stop().expect("it ends in order");
}

#[test]
fn long_requests_wait_for_memory_and_clients_are_served_meanwhile() {
    let (limit, longest) = (66_u64 << 20, 1 << 20);
    let driver = DriverModel::new(128, 5);
    let served = TestService::bounded_with_device(&driver, 32 << 20, limit);
    let mut client = served.client();
    for id in 0..256 {
        let data = vec![id as u8; longest];
        driver.ask(write(id, (id as u64 % 32) * (longest as u64 / 512), data));
    }
    let mut answered = 0;
    while answered < 256 {
        let (content, mut bytes) = ([answered as u8; 4096], [0; 4096]);
        // Behind all that the kernel writes to.
        client.write((32 << 20) - 4096, &content, false).expect("a write");
        client.read((32 << 20) - 4096, &mut bytes).expect("a read");
        assert!(served.status().memory.held_bytes <= limit);
        answered += driver.take_answered().iter().map(|(_, done)| assert!(done.is_ok())).count();
    }
    served.stop().expect("it ends in order");
}

#[test]
fn a_device_in_use_is_not_stopped_unless_it_may_wait() {
    let driver = DriverModel::new(4, 1);
    driver.set_in_use(true);
    let served = TestService::with_device(&driver, 0);
    let ControlReply::Failed(why) = served.order(&ServiceCommand::Stop) else { panic!("it was stopped") };
    assert!(why.contains("in use"), "{why}");
    driver.ask(ask(1, OP_READ, 0, 8));
    driver.wait(1);
    // Once it is let go of it can be.
    driver.set_in_use(false);
    assert!(matches!(served.order(&ServiceCommand::Stop), ControlReply::Done));
    served.thread.join().expect("it does not panic").expect("it ends in order");
    assert_eq!(driver.ends(), (true, true));
    let mut names: Vec<_> = served.events.lock().expect("nobody panics").iter().map(ServiceEvent::name).collect();
    names[..2].sort_unstable();
    assert_eq!(names, ["block-device-started", "stopping", "ordered", "stopping", "block-device-removed"]);

    let driver = DriverModel::new(4, 1);
    driver.set_in_use(true);
    let served = TestService::with_device(&driver, 0);
    assert!(matches!(served.order(&ServiceCommand::Pause), ControlReply::Done));
    served.thread.join().expect("it does not panic").expect("it ends in order");
    assert_eq!(driver.ends(), (false, false), "it waits for the next service once the process ends");
    let events = served.events.lock().expect("nobody panics");
    assert!(matches!(events.last(), Some(ServiceEvent::BlockDeviceLeft { waits: true, .. })), "{events:?}");

    let driver = DriverModel::new(4, 1);
    driver.set_unprivileged();
    let served = TestService::with_device(&driver, 0);
    let ControlReply::Failed(why) = served.order(&ServiceCommand::Pause) else { panic!("it cannot wait") };
    assert!(why.contains("without privileges"), "{why}");
    served.stop().expect("it ends in order");

    let served = TestService::new(false);
    assert!(matches!(served.order(&ServiceCommand::Pause), ControlReply::Failed(_)), "there is no device");
    served.stop().expect("it ends in order");
}

#[test]
fn a_signal_ends_the_service_be_its_device_in_use() {
    for (in_use, outlives) in [(false, true), (true, true), (true, false)] {
        let driver = DriverModel::new(4, 1);
        driver.set_in_use(in_use);
        if !outlives {
            driver.set_unprivileged();
        }
        let last = if in_use { "block-device-left" } else { "block-device-removed" };
        let mut names = TestService::with_device(&driver, 0).signal();
        // It may be told to end before it has heard that the device is there.
        names[..2].sort_unstable();
        assert_eq!(names, ["block-device-started", "stopping", last]);
        assert_eq!(driver.ends(), (!in_use, !in_use));
    }
}

#[test]
fn a_device_that_does_not_start_ends_the_service() {
    let driver = DriverModel::new(4, 1);
    driver.set_failing();
    let served = TestService::with_device(&driver, 0);
    let ended = served.thread.join().expect("it does not panic");
    assert!(matches!(ended, Err(ServiceError::BlockDevice(_))), "{ended:?}");
    assert_eq!(driver.ends(), (true, true), "nothing is left of it");

    // One that has waited goes on waiting.
    let driver = DriverModel::new(4, 1);
    driver.set_failing();
    driver.set_resumed();
    let ended = TestService::with_device(&driver, 0).thread.join().expect("it does not panic");
    assert!(matches!(ended, Err(ServiceError::BlockDevice(_))), "{ended:?}");
    assert_eq!(driver.ends(), (false, false));
}

#[test]
fn a_driver_that_refuses_an_answer_ends_the_service() {
    let driver = DriverModel::new(4, 1);
    let served = TestService::with_device(&driver, 0);
    // The device is there before the service hears of it, and requests may be answered between.
    served.wait_told("block-device-started");
    driver.ask(ask(0, OP_READ, 0, 8));
    driver.wait(1);
    driver.set_refusing();
    driver.ask(ask(1, OP_READ, 0, 8));
    served.thread.join().expect("it does not panic").expect("it ends in order");
    let names: Vec<_> = served.events.lock().expect("nobody panics").iter().map(ServiceEvent::name).collect();
    assert_eq!(names, ["block-device-started", "block-device-failed", "block-device-left"]);
    assert_eq!(driver.ends(), (false, false), "the next service is asked again");
}

#[test]
fn what_waits_for_an_array_that_is_refused_goes_on_waiting() {
    let driver = DriverModel::new(4, 1);
    let served = TestService::refusing_with_device(&driver);
    driver.ask(ask(1, OP_READ, 0, 8));
    let ended = served.thread.join().expect("it does not panic");
    assert!(ended.is_err(), "it is refused");
    assert!(driver.take_answered().is_empty());
    assert_eq!(driver.ends(), (false, false));
}

#[test]
fn a_broken_array_is_ended_by_order() {
    let driver = DriverModel::new(4, 1);
    let served = TestService::with_device(&driver, 0);
    driver.ask(ask(0, OP_READ, 0, 8));
    driver.wait(1);
    served.breaks.store(true, std::sync::atomic::Ordering::Relaxed);
    driver.ask(ask(1, OP_READ, 0, 8));
    assert_eq!(driver.wait(1), [(1, Err(IO))]);
    let ControlReply::Failed(_) = served.order(&ServiceCommand::Stop) else { panic!("it had stopped before") };
    assert!(matches!(served.thread.join().expect("it does not panic"), Err(ServiceError::Broken(_))));
}

#[test]
fn what_a_broken_array_is_asked_for_fails() {
    let driver = DriverModel::new(4, 1);
    let served = TestService::with_device(&driver, 0);
    driver.ask(ask(0, OP_READ, 0, 8));
    driver.wait(1);
    served.breaks.store(true, std::sync::atomic::Ordering::Relaxed);
    for id in 1..10 {
        driver.ask(write(id, 8 * id as u64, vec![1; 4096]));
    }
    assert!(driver.wait(9).iter().all(|(_, done)| *done == Err(IO)));
    drop(served.order(&ServiceCommand::Stop));
    let ended = served.thread.join().expect("it does not panic");
    assert!(matches!(ended, Err(ServiceError::Broken(_))), "{ended:?}");
}
