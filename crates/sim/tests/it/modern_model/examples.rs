//! The worked examples of the modern drive's specification, to the nanosecond.

use destage_plan::{Element, Nanos, PageGeometry, PageNo, Quota};
use destage_policy::buffer::DeviceView;
use destage_sim::ssd::{
    CollectionPoint, ModernConfig, PageAllocation, Ssd, SsdConfig, SsdShape, StartState, VictimPolicy,
};

/// Returns blocks of 64 pages of 4 KiB.
pub(super) fn geometry() -> PageGeometry {
    PageGeometry::new(4096, 64).expect("a geometry")
}

/// Returns a drive with the times of the examples, whose interface sets no limit.
pub(super) fn drive(elements: u32, word_lines: u32, exported_pages: u64) -> SsdConfig {
    SsdConfig {
        elements,
        planes: 2,
        allocation: PageAllocation::Channels,
        reserve_bp: 3000,
        read: Nanos(53_600),
        program: Nanos(987_000),
        erase: Nanos(5_000_000),
        transfer_ps_per_byte: 830,
        collection_write_point: CollectionPoint::Own,
        modern: Some(ModernConfig {
            exported_pages,
            word_lines: Some(word_lines),
            command_rate: None,
            link_rate: None,
            ..ModernConfig::default()
        }),
        ..SsdConfig::default()
    }
}

fn built(config: SsdConfig, start: StartState) -> Ssd {
    Ssd::new(SsdShape::new(config, geometry()).expect("a shape"), start)
}

/// Reads a page at so many microseconds; returns when it is answered, in nanoseconds.
fn read(ssd: &mut Ssd, at_us: u64, page: u32) -> u64 {
    ssd.read(Nanos(at_us * 1000), PageNo(page)).0
}

/// Writes a page likewise.
fn write(ssd: &mut Ssd, at_us: u64, page: u32) -> u64 {
    ssd.program(Nanos(at_us * 1000), PageNo(page)).0
}

#[test]
fn an_idle_drive_reads_in_64_us() {
    let mut ssd = built(drive(1, 2, 1920), StartState::Full);
    assert_eq!(read(&mut ssd, 0, 0), 64_000);
}

/// A drive of one die that has programmed a unit since 100 µs. Sectors 0 and 4 lie on planes 0 and 1.
fn programming() -> Ssd {
    let mut ssd = built(drive(1, 2, 1920), StartState::Full);
    for page in 1000..1024 {
        assert_eq!(write(&mut ssd, 100, page), 111_000);
    }
    assert_eq!(ssd.busy_until(Element(0)), Nanos(1_087_000));
    ssd
}

#[test]
fn a_read_suspends_a_program() {
    let mut ssd = programming();
    assert_eq!(read(&mut ssd, 300, 0), 424_000);
    assert_eq!(ssd.busy_until(Element(0)), Nanos(1_204_000));
    let mut other = ssd.clone();
    assert_eq!(read(&mut other, 350, 4), 424_000, "the other plane");
    assert_eq!(other.busy_until(Element(0)), Nanos(1_204_000));
    assert_eq!(read(&mut ssd, 350, 0), 481_000, "the same plane");
    assert_eq!(ssd.busy_until(Element(0)), Nanos(1_261_000));
}

#[test]
fn a_program_that_was_passed_often_goes_first() {
    let mut config = drive(1, 2, 1920);
    config.modern.as_mut().expect("modern").bypass = 1;
    let mut ssd = built(config, StartState::Full);
    (1000..1024).for_each(|page| _ = write(&mut ssd, 100, page));
    assert_eq!(read(&mut ssd, 300, 0), 424_000);
    // Programs again from 417 us, and ends at 1,204 us.
    assert_eq!(read(&mut ssd, 500, 0), 1_204_000 + 64_000);
}

/// A drive of one die whose slices are superblocks: 48 sectors, of which so many are valid in the only victim.
fn collecting(valid: u32) -> Ssd {
    let mut ssd = built(drive(1, 2, 1920), StartState::Full);
    // As many sectors of each of the six array reads.
    for read in 0..6 {
        let outdated = (48 - valid) / 6 + u32::from(read < (48 - valid) % 6);
        (0..outdated).for_each(|i| ssd.trim(PageNo(read * 8 + i)));
    }
    ssd.collect(Nanos::ZERO, Quota::Blocks(1));
    ssd
}

#[test]
fn a_read_waits_for_a_slice() {
    let mut ssd = collecting(36);
    ssd.set_now(Nanos(100_000));
    assert!(ssd.collecting(Element(0)));
    assert_eq!(read(&mut ssd, 100, 100), 508_000);
    assert!(ssd.collecting(Element(0)));
    ssd.set_now(Nanos(444_000));
    assert!(!ssd.collecting(Element(0)));
    let mut ssd = collecting(47);
    assert_eq!(ssd.read(Nanos(1), PageNo(100)).0, 548_800 - 3_400, "all but one sector of the longest");
}

/// Reads of collection are served in order of arrival: a read of the other plane does not pass the slice that a first one waits
/// for, and neither passes a program that goes first.
#[test]
fn no_read_passes_what_another_waits_for() {
    let mut ssd = collecting(36);
    // Sectors 96 and 100 lie on planes 0 and 1.
    assert_eq!(read(&mut ssd, 100, 100), 508_000);
    assert_eq!(read(&mut ssd, 150, 96), 508_000);
    let mut config = drive(1, 2, 1920);
    config.modern.as_mut().expect("modern").bypass = 1;
    let mut ssd = built(config, StartState::Full);
    (1000..1024).for_each(|page| _ = write(&mut ssd, 100, page));
    assert_eq!(read(&mut ssd, 300, 0), 424_000);
    assert_eq!(read(&mut ssd, 500, 0), 1_268_000, "it went before one read");
    assert_eq!(read(&mut ssd, 600, 4), 1_268_000);
}

/// Checks that a slice which goes first is one all the same, from its begin to its end.
#[test]
fn a_slice_that_goes_first_collects() {
    let mut config = drive(1, 2, 1920);
    config.modern.as_mut().expect("modern").bypass = 0;
    let mut ssd = built(config, StartState::Full);
    (0..12).for_each(|page| ssd.trim(PageNo(page)));
    assert_eq!(read(&mut ssd, 0, 96), 64_000);
    // The die reads until 57 us; five array reads and 36 sectors take 390.4 us.
    ssd.collect(Nanos(10_000), Quota::Blocks(1));
    assert_eq!(read(&mut ssd, 20, 100), 511_400);
    let collects = [20, 57, 447, 448].map(|now_us| {
        ssd.set_now(Nanos(now_us * 1000));
        (ssd.collecting(Element(0)), ssd.first_end_under_way())
    });
    let under_way = (true, Some(Nanos(447_400)));
    assert_eq!(collects, [(false, None), under_way, under_way, (false, None)]);
}

/// Checks that the end of a slice is told once, and not before it is certain.
#[test]
fn ends_of_slices_are_told() {
    for reads_at in [vec![], vec![100_000], vec![500_000], vec![100_000, 500_000]] {
        let mut ssd = collecting(36);
        ssd.watch_collections();
        let at = |ssd: &mut Ssd, now: u64| {
            ssd.set_now(Nanos(now));
            (ssd.first_end_under_way(), ssd.first_collection_end())
        };
        assert_eq!(at(&mut ssd, 0), (Some(Nanos(444_000)), None));
        let (while_under_way, later): (Vec<u64>, Vec<u64>) = reads_at.into_iter().partition(|&at| at < 444_000);
        for at in while_under_way {
            ssd.read(Nanos(at), PageNo(100));
        }
        assert_eq!(at(&mut ssd, 443_999), (Some(Nanos(444_000)), None));
        for at in later {
            ssd.read(Nanos(at), PageNo(100));
        }
        assert_eq!(at(&mut ssd, 600_000), (None, Some((Nanos(444_000), Element(0)))));
        ssd.end_collection(Element(0));
        assert_eq!(at(&mut ssd, 600_000), (None, None));
        ssd.check().expect("its laws");
    }
}

#[test]
fn sectors_lie_where_the_layout_says() {
    let mut ssd = built(drive(16, 4, 12 * 1536), StartState::Full);
    let page = 5 * 1536 + 437;
    assert_eq!(ssd.element_of(PageNo(page)), Element(2));
    assert_eq!(read(&mut ssd, 0, page), 64_000);
    assert_eq!(read(&mut ssd, 0, page - 4), 64_000, "plane 0 of the same die reads independently");
    assert_eq!(read(&mut ssd, 0, page + 8), 121_000, "flash page 1 of plane 1 waits for flash page 0");
    assert_eq!(ssd.element_of(PageNo(page + 24)), Element(3));
}

#[test]
fn a_full_cache_takes_what_programs_free() {
    let mut config = drive(1, 8, 1920);
    config.program = Nanos(1_000_000);
    config.modern.as_mut().expect("modern").write_cache_bytes = 48 * 4096;
    let mut ssd = built(config, StartState::Empty);
    let answers: Vec<u64> = (0..100).map(|page| write(&mut ssd, 0, page) / 1000).collect();
    let expected: Vec<u64> =
        (1..=100).map(|write| [11, 1_011, 2_011, 3_011][(write - 1_usize).saturating_sub(24) / 24]).collect();
    assert_eq!(answers, expected);
    ssd.check().expect("its laws");
}

/// With two writes inside nothing more is taken: of writes that are answered at 1, 1 and 2 ms the last but one decides, and of
/// 1, 2 and 2 ms.
#[test]
fn reads_wait_behind_writes_that_wait() {
    let mut config = drive(1, 8, 1920);
    config.program = Nanos(1_000_000);
    let modern = config.modern.as_mut().expect("modern");
    (modern.write_cache_bytes, modern.write_slots, modern.command_write) = (48 * 4096, 2, Nanos::ZERO);
    let mut ssd = built(config, StartState::Empty);
    let answers: Vec<u64> = (0..73).map(|page| write(&mut ssd, 0, page) / 1000).collect();
    assert_eq!(answers[70..], [1_000, 1_000, 2_000]);
    assert_eq!(read(&mut ssd.clone(), 100, 1000), 1_014_000, "nothing was written there");
    assert_eq!(write(&mut ssd, 0, 73), 2_000_000);
    assert_eq!(read(&mut ssd, 100, 1000), 2_014_000);
}

#[test]
fn a_command_reads_a_flash_page_once() {
    let mut ssd = built(drive(1, 2, 1920), StartState::Full);
    ssd.begin_command();
    // Flash page 0 of plane 0, that of plane 1, and flash page 1 of plane 0.
    let answers = [0, 1, 2, 3, 4, 5, 8].map(|page| read(&mut ssd, 0, page));
    assert_eq!(answers, [64_000, 67_400, 70_800, 74_200, 64_000, 67_400, 131_200]);
    ssd.begin_command();
    assert_eq!(read(&mut ssd, 1000, 8), 1_064_000);
    ssd.begin_command();
    assert_eq!(read(&mut ssd, 1000, 9), 1_121_000, "another command");
}

/// A sector that is asked for once its flash page has been read may not be answered before that.
#[test]
fn a_later_sector_is_not_read_before_its_time() {
    let mut ssd = built(drive(1, 2, 1920), StartState::Full);
    ssd.begin_command();
    assert_eq!(
        [(0, 0), (30, 1), (1000, 2)].map(|(at_us, page)| read(&mut ssd, at_us, page)),
        [64_000, 67_400, 1_064_000]
    );
}

/// Checks that each run of pages is a command: what a buffer writes for one request of its host lies here and there.
#[test]
fn scattered_pages_are_commands_of_their_own() {
    let mut config = drive(1, 2, 1920);
    let modern = config.modern.as_mut().expect("modern");
    (modern.command_rate, modern.link_rate) = (Some(100_000), Some(1_024_000_000));
    let mut ssd = built(config, StartState::Full);
    ssd.begin_command();
    // A command takes 10 us, and three of its pages 12 us of the link.
    let answers = [7, 8, 9, 500, 3, 501].map(|page| write(&mut ssd, 0, page));
    assert_eq!(answers, [11_000, 11_000, 11_000, 23_000, 33_000, 43_000]);
    let answers = [100, 200, 201].map(|page| read(&mut ssd, 0, page));
    assert_eq!(answers.map(|at| at >= 106_000), [true; 3], "{answers:?}");
    // A request of 64 KiB is one, whose bytes take 64 us.
    ssd.begin_command();
    assert!((100..116).all(|page| write(&mut ssd, 1000, page) == 1_011_000));
    ssd.begin_command();
    assert_eq!(write(&mut ssd, 1000, 0), 1_075_000);
}

#[test]
fn commands_and_bytes_take_the_interface() {
    let mut config = drive(1, 2, 1920);
    let modern = config.modern.as_mut().expect("modern");
    (modern.command_rate, modern.link_rate) = (Some(100_000), Some(1_024_000_000));
    let mut ssd = built(config, StartState::Full);
    ssd.begin_command();
    // Eight pages take 32 us of the link, more than the 10 us of a command.
    (0..8).for_each(|page| assert_eq!(write(&mut ssd, 0, page), 11_000));
    ssd.begin_command();
    assert_eq!(write(&mut ssd, 0, 8), 43_000);
    ssd.begin_command();
    assert_eq!(write(&mut ssd, 0, 9), 53_000);
}

#[test]
fn held_sectors_are_changed_in_place() {
    let mut config = drive(1, 2, 1920);
    config.modern.as_mut().expect("modern").write_hold_bytes = 3 * 4096;
    let mut ssd = built(config, StartState::Full);
    // Filling leaves the last two held back.
    let programmed = |ssd: &Ssd| ssd.total().host_programs;
    assert_eq!(read(&mut ssd, 0, 1919), 14_000);
    assert_eq!([1919, 1918, 1919].map(|page| write(&mut ssd, 0, page)), [11_000; 3]);
    assert_eq!(programmed(&ssd), 0);
    write(&mut ssd, 0, 5);
    assert_eq!(programmed(&ssd), 1, "the oldest left");
    ssd.trim(PageNo(5));
    assert_eq!((read(&mut ssd, 0, 5), ssd.total().unmapped_reads), (14_000, 1));
    ssd.check().expect("its laws");
}

/// Each of the collectors frees what it can from, and leaves the map whole.
#[test]
fn every_collector_collects() {
    for victim in [VictimPolicy::Greedy, VictimPolicy::Fifo, VictimPolicy::DChoice(10), VictimPolicy::CostBenefit] {
        for point in CollectionPoint::ALL {
            let mut config = SsdConfig { collection_write_point: point, ..drive(4, 2, 192 * 40) };
            config.modern.as_mut().expect("modern").victim = victim;
            let ssd = built(config, StartState::Steady { seed: 1 });
            let steady = ssd.steadiness().expect("it was to be steady");
            let found = steady.write_amplification_milli[1];
            assert!(steady.reached && (1_100..2_400).contains(&found), "{victim}, {point:?}: {found}");
            ssd.check().expect("its laws");
        }
    }
}
