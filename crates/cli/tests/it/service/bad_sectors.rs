//! Members with bad sectors: QEMU's `blkdebug` fails reads of them, behind a file by FUSE, over RAID-1, 5 and 6.
//!
//! What lies in a bad sector is spoilt in the image, so that whatever is right comes from the other members.

use std::fs;
use std::os::unix::fs::FileExt;

use serde_json::Value;

use super::fuse_files::FuseFile;
use super::losses::wait_for;
use super::media::CHUNK;
use super::{Array, IoMode, pages};

io_mode_tests! {
    sectors_that_are_written_anew_are_good_again,
    the_others_answer_for_a_sector_that_stays_bad,
    a_row_with_too_many_bad_sectors_loses_no_member,
    a_rebuild_goes_on_beside_a_row_that_cannot_be_made_up,
}

/// Lists the errors of a read that say that the medium, or integrity, is bad, and not that the device is gone: `EIO`,
/// `ENODATA`, `EILSEQ`, `EBADMSG` and `EUCLEAN`.
const OF_MEDIUM: [i32; 5] = [5, 61, 84, 74, 117];
/// Counts the bytes of a member before its first row.
const OFFSET: usize = 1 << 20;
/// Counts the bytes of a member from there on.
const MEMBER: usize = 2 << 20;
/// Lists the pages that cannot be read where all can be.
const NOTHING: [usize; 0] = [];
/// Names a stripe of which the first three members have data, in this order, over RAID-5 of four and RAID-6 of five.
const STRIPE: usize = 16;

/// Describes an array: its level as `create` takes it, its members, those that it can do without, and a stripe's chunks of data.
struct LevelShape {
    level: &'static str,
    members: usize,
    spare: usize,
    wide: usize,
}

impl LevelShape {
    /// Returns where the data of pages begins in the array, ascending; copies of the same once.
    fn data(&self, pages: &[BadPage]) -> Vec<usize> {
        let mut data: Vec<usize> = pages.iter().filter_map(|page| page.data(self)).collect();
        data.sort_unstable();
        data.dedup();
        data
    }
}

const SHAPES: [LevelShape; 3] = [
    LevelShape { level: "raid1:3", members: 3, spare: 2, wide: 1 },
    LevelShape { level: "raid5:4", members: 4, spare: 1, wide: 3 },
    LevelShape { level: "raid6:5", members: 5, spare: 2, wide: 3 },
];

/// Says how often reads of a bad sector fail.
#[derive(Clone, Copy)]
enum ReadFailures {
    /// The request, and then the page by itself: the next read comes after the page was written anew.
    UntilAnew,
    Always,
}

/// Names a page of the stripe's chunk on a member, which cannot be read.
#[derive(Clone, Copy)]
struct BadPage {
    member: usize,
    page: usize,
    /// Gives the error with which reads of it fail.
    errno: i32,
}

impl BadPage {
    /// Returns where it begins on its member.
    const fn offset(self) -> usize {
        OFFSET + STRIPE * CHUNK + self.page * 4096
    }

    /// Returns where its data begins in the array, if the member has data there.
    fn data(self, shape: &LevelShape) -> Option<usize> {
        match shape.level {
            "raid1:3" => Some(STRIPE * CHUNK + self.page * 4096),
            _ if self.member < shape.wide => Some((STRIPE * shape.wide + self.member) * CHUNK + self.page * 4096),
            _ => None,
        }
    }

    /// Returns the rules of blkdebug that fail reads of a sector of it.
    fn rules(self, failures: ReadFailures) -> String {
        let sector = self.offset() / 512 + 1;
        let errno = self.errno;
        let (times, once) = match failures {
            ReadFailures::UntilAnew => (2, "on"),
            ReadFailures::Always => (1, "off"),
        };
        let rule = |number| {
            let name = format!("inject-error.{number}");
            format!(
                ",{name}.event=none,{name}.iotype=read,{name}.errno={errno},{name}.sector={sector},{name}.once={once}"
            )
        };
        (0..times).map(rule).collect()
    }
}

/// Holds an array, all of which was written, and its members with bad sectors.
struct FailingArray {
    shape: &'static LevelShape,
    array: Array,
    content: Vec<u8>,
    /// Holds what each member has from its first row on.
    members: Vec<Vec<u8>>,
    files: Vec<FuseFile>,
}

impl FailingArray {
    /// Fills an array, and then spoils a sector of these pages if asked to. At most one page of a member is bad.
    fn new(
        io_mode: IoMode,
        shape: &'static LevelShape,
        bad: &[BadPage],
        failures: ReadFailures,
        spoil: bool,
    ) -> Option<Self> {
        let mut array = Array::of_level(io_mode, shape.level, "2MiB", &["--policy", "none"]);
        array.serve(&[]);
        let content = pages(0..(shape.wide * MEMBER / 4096) as u64);
        let mut client = array.client();
        for (at, bytes) in content.chunks(1 << 20).enumerate() {
            client.write((at << 20) as u64, bytes, false).expect("a write");
        }
        drop(client);
        array.stop();
        let read =
            |number| fs::read(array.file(&format!("member{number}"))).expect("a member")[OFFSET..][..MEMBER].to_vec();
        let members = (0..shape.members).map(read).collect();
        let mut failing = Self { shape, array, content, members, files: Vec::new() };
        let mut description = failing.description();
        // QEMU's daemon takes one command at a time. The page cache would answer reads of what was written to a bad sector.
        description = description.replace("depth = 256", "depth = 1").replace("direct = false", "direct = true");
        for bad in bad {
            let name = format!("member{}", bad.member);
            let image = failing.array.file(&name);
            if spoil {
                let file = fs::File::options().write(true).open(&image).expect("a member");
                file.write_all_at(&[0xA5; 512], bad.offset() as u64 + 512).expect("it can be written");
            }
            failing.files.push(FuseFile::over("members with bad sectors", &image, &bad.rules(failures))?);
            description = description.replace(&format!("\"{name}\""), &format!("\"{name}.fuse\""));
        }
        assert_eq!(description.matches(".fuse").count(), bad.len(), "{description}");
        assert!(description.contains("depth = 1\n") && description.contains("direct = true"), "{description}");
        failing.describe(&description);
        failing.array.serve(&[]);
        Some(failing)
    }

    fn description(&self) -> String {
        fs::read_to_string(self.array.file("array.toml")).expect("a description")
    }

    fn describe(&self, description: &str) {
        fs::write(self.array.file("array.toml"), description).expect("a description");
    }

    /// Serves it over the images themselves, whose sectors are good.
    fn serve_mended(&mut self) {
        self.files.clear();
        self.describe(&self.description().replace(".fuse", ""));
        self.array.serve(&[]);
    }

    /// Reads all in requests of a chunk, those that fail page by page, and returns where what cannot be read begins.
    fn read_all(&self) -> Vec<usize> {
        let mut client = self.array.client();
        let mut failed = Vec::new();
        let mut read = |at: usize, bytes: &[u8]| {
            let mut got = vec![0; bytes.len()];
            let is_read = client.read(at as u64, &mut got).is_ok();
            assert!(!is_read || got == bytes, "{}: {} bytes at {at}", self.shape.level, bytes.len());
            is_read
        };
        for (chunk, bytes) in self.content.chunks(CHUNK).enumerate() {
            if !read(chunk * CHUNK, bytes) {
                let pages = bytes.chunks(4096).enumerate().map(|(number, page)| (chunk * CHUNK + number * 4096, page));
                failed.extend(pages.filter(|(at, page)| !read(*at, page)).map(|(at, _)| at));
            }
        }
        failed
    }

    /// Compares all rows, which reads all of every member; returns the exit status.
    fn scrub(&self) -> Option<i32> {
        self.array.command("scrub", &["--rate", "off"]).status.code()
    }

    /// Checks state and members: none is lost, and these counts are 0 but for pages of these members.
    fn check(&self, state: &str, corrected: &[BadPage], bad: &[BadPage]) {
        let status = self.array.status();
        assert_eq!(status["array"]["state"], state, "{}: {status}", self.shape.level);
        let counts = |pages: &[BadPage]| -> Vec<Value> {
            (0..self.shape.members)
                .map(|number| pages.iter().filter(|page| page.member == number).count().into())
                .collect()
        };
        let devices = status["array"]["devices"].as_array().expect("devices");
        let of = |key: &str| -> Vec<Value> { devices.iter().map(|device| device[key].clone()).collect() };
        assert!(devices.iter().all(|device| device["answers"] == true), "no member is lost: {status}");
        assert_eq!(of("corrected_pages"), counts(corrected), "{}: {}", self.shape.level, self.array.log());
        assert_eq!(of("bad_pages"), counts(bad), "{}: {}", self.shape.level, self.array.log());
    }

    /// Checks that the log has one line about each of these pages, and no other that is like it.
    fn told(&self, pages: &[BadPage], before: &str, after: &str) {
        let log = self.array.log();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(before) && line.contains(after)).collect();
        assert_eq!(lines.len(), pages.len(), "{}: {log}", self.shape.level);
        for page in pages {
            let (name, at) = (format!(" member {} ", page.member), format!(" at {} of ", page.offset()));
            assert!(lines.iter().any(|line| line.contains(&name) && line.contains(&at)), "{name}{at}: {log}");
        }
    }

    /// Checks that images hold what they held at first.
    fn images_are_whole(&self) {
        for (number, held) in self.members.iter().enumerate() {
            let image = fs::read(self.array.file(&format!("member{number}"))).expect("a member");
            assert!(image[OFFSET..][..MEMBER] == **held, "{}: member {number}", self.shape.level);
        }
    }
}

fn sectors_that_are_written_anew_are_good_again(io_mode: IoMode) {
    let mut errors = OF_MEDIUM.into_iter().cycle();
    for shape in &SHAPES {
        // The last of them is read by no request: it has parity, or a copy.
        let members = [0, 1, shape.members - 1];
        let bad = [1, 5, 9].into_iter().zip(members).zip(&mut errors);
        let bad = bad.map(|((page, member), errno)| BadPage { member, page, errno });
        let bad: Vec<BadPage> = bad.collect();
        let Some(mut failing) = FailingArray::new(io_mode, shape, &bad, ReadFailures::UntilAnew, true) else { return };
        assert_eq!(failing.read_all(), NOTHING);
        assert_eq!(failing.scrub(), Some(0), "{}", failing.array.log());
        assert_eq!(failing.read_all(), NOTHING);
        failing.check("serving", &bad, &[]);
        failing.told(&bad, "could not read", "they were made anew from the others");
        failing.array.stop();
        failing.images_are_whole();
        // Nothing is left of it.
        failing.array.serve(&[]);
        assert_eq!(failing.read_all(), NOTHING);
        failing.check("serving", &[], &[]);
        failing.array.stop();
    }
}

fn the_others_answer_for_a_sector_that_stays_bad(io_mode: IoMode) {
    for shape in &SHAPES {
        let bad = [BadPage { member: 0, page: 3, errno: OF_MEDIUM[0] }];
        let Some(mut failing) = FailingArray::new(io_mode, shape, &bad, ReadFailures::Always, true) else { return };
        for life in 0..2 {
            if life > 0 {
                // The member says so itself, before anybody reads the page.
                wait_for(&failing.array, "degraded");
                failing.check("degraded", &[], &bad);
            }
            assert_eq!(failing.read_all(), NOTHING);
            // Copies that no request has read.
            failing.scrub();
            assert_eq!(failing.read_all(), NOTHING, "life {life}");
            failing.check("degraded", &[], &bad);
            failing.told(&bad, "cannot keep", "the others answer for them");
            failing.array.stop();
            if life == 0 {
                failing.array.serve(&[]);
            }
        }
        // It was written anew all the same.
        failing.images_are_whole();
        failing.serve_mended();
        // What can be kept again leaves the list.
        wait_for(&failing.array, "serving");
        assert_eq!(failing.read_all(), NOTHING);
        failing.check("serving", &bad, &[]);
        failing.array.stop();
        failing.array.serve(&[]);
        assert_eq!(failing.read_all(), NOTHING);
        failing.check("serving", &[], &[]);
        failing.array.stop();
    }
}

fn a_row_with_too_many_bad_sectors_loses_no_member(io_mode: IoMode) {
    for shape in &SHAPES {
        let bad: Vec<BadPage> =
            (0..=shape.spare).map(|member| BadPage { member, page: 7, errno: OF_MEDIUM[0] }).collect();
        let Some(mut failing) = FailingArray::new(io_mode, shape, &bad, ReadFailures::Always, false) else { return };
        let lost = shape.data(&bad);
        for _ in 0..2 {
            assert_eq!(failing.read_all(), lost);
            failing.check("serving", &[], &[]);
        }
        assert_eq!(failing.scrub(), Some(3), "too much is lost of a row to compare it");
        failing.told(&bad, "cannot read", "which the others do not make up");
        // A write of the whole stripe needs nothing of the row.
        let stripe = CHUNK * shape.wide;
        let anew = pages((5000..).take(stripe / 4096));
        failing.array.client().write((STRIPE * stripe) as u64, &anew, true).expect("nothing is to be read for it");
        failing.content[STRIPE * stripe..][..stripe].copy_from_slice(&anew);
        failing.check("serving", &[], &[]);
        failing.array.stop();
        failing.serve_mended();
        assert_eq!(failing.read_all(), NOTHING);
        assert_eq!(failing.scrub(), Some(0), "{}", failing.array.log());
        failing.check("serving", &[], &[]);
        failing.array.stop();
    }
}

fn a_rebuild_goes_on_beside_a_row_that_cannot_be_made_up(io_mode: IoMode) {
    for shape in &SHAPES {
        let bad: Vec<BadPage> =
            (0..shape.spare).map(|member| BadPage { member, page: 11, errno: OF_MEDIUM[0] }).collect();
        let Some(mut failing) = FailingArray::new(io_mode, shape, &bad, ReadFailures::Always, false) else { return };
        // Where only one copy is good it is the one that is replaced.
        let replaced = BadPage { member: shape.members - 1, page: 11, errno: OF_MEDIUM[0] };
        let new = failing.array.file("new").display().to_string();
        let number = replaced.member.to_string();
        // A member that answers is copied.
        for (order, words) in [("fail", &[&*number][..]), ("replace", &[&*number, &*new])] {
            let ordered = failing.array.command(order, words);
            assert!(ordered.status.success(), "{}", String::from_utf8_lossy(&ordered.stderr));
        }
        wait_for(&failing.array, "serving");
        let lost = shape.data(&bad);
        assert_eq!(failing.read_all(), lost);
        failing.told(&[replaced], "could not be filled at", "that others cannot read");
        // Parity that is missing is no data.
        let told = failing.array.log().matches("4096 bytes of data may be lost: 4096 from byte").count();
        assert_eq!(told, shape.data(&[replaced]).len(), "{}: {}", shape.level, failing.array.log());
        assert_eq!(failing.array.log().matches("bytes of data may be lost").count(), told, "{}", failing.array.log());
        failing.check("serving", &[], &[]);
        failing.array.stop();
        // With the sectors good again the others make the page up.
        failing.serve_mended();
        assert_eq!(failing.read_all(), NOTHING);
        assert_eq!(failing.scrub(), Some(0), "{}", failing.array.log());
        failing.told(&[replaced], "could not read", "they were made anew from the others");
        failing.check("serving", &[replaced], &[]);
        failing.array.stop();
    }
}
