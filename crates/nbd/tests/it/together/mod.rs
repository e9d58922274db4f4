//! The client and the server against each other: whatever is asked for in whatever order, however
//! requests and replies overlap, and however their bytes are cut up.

mod disk;
mod refusals;
mod world;

use destage_nbd::{BlockSizes, ExportFeatures, NbdCommand, NbdExport, NbdRequest};
use proptest::prelude::*;

use self::world::{Agreed, World};
use crate::common;

const SIZE: u64 = 1 << 14;

fn cases() -> u32 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 20_000 } else { 500 }
}

fn exports() -> impl Strategy<Value = NbdExport> {
    let features = any::<[bool; 9]>().prop_map(|set| ExportFeatures {
        read_only: set[0] && set[8],
        flush: set[1],
        fua: set[2],
        rotational: set[3],
        trim: set[4],
        write_zeroes: set[5],
        fast_zero: set[5] && set[6],
        multi_conn: set[7],
        cache: set[8],
    });
    (features, 0..13_u32).prop_map(|(features, shift)| NbdExport {
        features,
        blocks: BlockSizes { minimum: 1 << shift, preferred: 4096, maximum: 1 << 16 },
        ..common::full("disk", SIZE)
    })
}

fn commands() -> impl Strategy<Value = NbdCommand> {
    prop_oneof![
        3 => any::<bool>().prop_map(|whole| NbdCommand::Read { whole }),
        3 => Just(NbdCommand::Write),
        1 => Just(NbdCommand::Flush),
        1 => Just(NbdCommand::Trim),
        1 => Just(NbdCommand::Cache),
        1 => any::<(bool, bool)>().prop_map(|(no_hole, fast)| NbdCommand::WriteZeroes { no_hole, fast }),
        2 => any::<bool>().prop_map(|one| NbdCommand::BlockStatus { one }),
    ]
}

/// Most are aligned and inside; some are anything.
fn requests() -> impl Strategy<Value = NbdRequest> {
    let aligned = (0..5_u64, 0..4_u32).prop_map(|(offset, length)| (offset * 4096, length * 4096));
    let inside = (0..SIZE, 0..3000_u32);
    let edge = (prop_oneof![Just(SIZE), Just(u64::MAX), Just(SIZE - 512)], prop_oneof![Just(512), Just(70_000)]);
    let ranges = prop_oneof![5 => aligned, 2 => inside, 1 => edge];
    (commands(), any::<[bool; 3]>(), ranges).prop_map(|(command, set, (offset, length))| {
        let (offset, length) = if command == NbdCommand::Flush && !set[2] { (0, 0) } else { (offset, length) };
        NbdRequest { cookie: 0, command, fua: set[0] && set[1], offset, length }
    })
}

fn agreed() -> impl Strategy<Value = Agreed> {
    (any::<[bool; 2]>(), 0..4_usize).prop_map(|([structured, by_name], contexts)| Agreed {
        structured,
        by_name,
        contexts: if structured { contexts } else { 0 },
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_answered_as_it_was_carried_out(
        export in exports(),
        agreed in agreed(),
        requests in prop::collection::vec(requests(), 0..40),
        seed in any::<u64>(),
    ) {
        let mut world = World::new(export, agreed, seed);
        world.negotiate();
        world.run(requests);
        world.part();
        world.replay();
    }
}
