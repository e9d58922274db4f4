//! Every seed in `fuzz/seeds`, and a few mutations of each, through its target. The fuzzer finds
//! what is new; this keeps what was found, and notices what a change breaks.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use destage_hostile::{Target, target, targets};

/// Bytes of a seed at most.
const SEED_BYTES: u64 = 6144;

fn seeds_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds")
}

/// The seeds of a target, by name: what is in its folder, if there is one, and the sample that it
/// has of itself.
fn seeds(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = seeds_folder().join(target.name);
    let files = folder.is_dir().then(|| fs::read_dir(&folder).expect("a folder that can be read"));
    let mut seeds: Vec<_> = files
        .into_iter()
        .flatten()
        .map(|file| {
            let path = file.expect("a folder that can be read").path();
            let name = path.file_name().expect("a file").to_string_lossy().into_owned();
            (name, fs::read(&path).expect("a file that can be read"))
        })
        .chain(target.sample().map(|sample| ("its sample".to_owned(), sample)))
        .collect();
    seeds.sort();
    seeds
}

/// Mutations of each seed of a target of cost 1.
fn mutations() -> u32 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 20_000 } else { 400 }
}

#[test]
fn every_target_has_small_seeds_and_every_seed_a_target() {
    for target in targets() {
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{} has no seed", target.name);
        for (name, bytes) in seeds {
            assert!(bytes.len() as u64 <= SEED_BYTES, "{}/{name} has {} B", target.name, bytes.len());
        }
    }
    for folder in fs::read_dir(seeds_folder()).expect("the seeds") {
        let name = folder.expect("a folder that can be read").file_name();
        assert!(name.to_str().and_then(target).is_some(), "there is no target {}", name.display());
    }
}

#[test]
fn no_seed_and_no_mutation_of_one_breaks_a_promise() {
    let broken: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> =
            targets().chunks(targets().len().div_ceil(2)).map(|some| scope.spawn(|| replay(some))).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("panics are caught")).collect()
    });
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Tries all seeds of some targets; gives those that break a promise, each with the input as text.
fn replay(targets: &[Target]) -> Vec<String> {
    let mut broken = Vec::new();
    for target in targets {
        let seeds = seeds(target);
        for (n, (name, seed)) in seeds.iter().enumerate() {
            let mut attempt = |what: &str, bytes: &[u8]| {
                let result = catch_unwind(AssertUnwindSafe(|| target.check(bytes)));
                if result.is_err() {
                    broken.push(format!("{}/{name}{what}: \"{}\"", target.name, bytes.escape_ascii()));
                }
                result.is_ok()
            };
            if !attempt("", seed) {
                continue;
            }
            let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (n as u64 + 1));
            for number in 0..mutations() / target.cost {
                let other = &seeds[random.below(seeds.len())].1;
                let mutated = mutate(seed, other, &mut random);
                if !attempt(&format!(", mutation {number}"), &mutated) {
                    break;
                }
            }
        }
    }
    broken
}

/// One to four changes: bits, bytes, numbers, pieces left out, doubled, or taken from another seed.
fn mutate(seed: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    const BYTES: &[u8] = &[0, 1, 0x7f, 0x80, 0xff, b'0', b'9', b'-', b'.', b',', b':', b'\n', b'\r', b' ', b'"', b'='];
    const NUMBERS: &[&[u8]] = &[
        b"18446744073709551615",
        b"18446744073709551616",
        b"9223372036854775808",
        b"4294967296",
        b"36028797018963968",
        b"-1",
        b"1e9",
        b"0x10",
        b"00000000000000000000000000001",
        b"0.0000000001",
    ];
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = at + random.below(bytes.len() - at + 1).min(1 << random.below(8));
        match random.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = BYTES[random.below(BYTES.len())],
            2 => bytes.insert(at, BYTES[random.below(BYTES.len())]),
            3 => {
                let number = NUMBERS[random.below(NUMBERS.len())];
                let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
                bytes.splice(at..at + digits, number.iter().copied());
            }
            4 => drop(bytes.drain(at..end)),
            5 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            6 => {
                let from = random.below(other.len() + 1);
                let to = from + random.below(other.len() - from + 1);
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            _ => bytes.truncate(at),
        }
    }
    bytes.truncate(SEED_BYTES as usize);
    bytes
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)) * n as u128) >> 64) as usize
    }
}
