//! Write amplification by fill, and throughput by skew.

use destage_plan::{Nanos, PageGeometry, PageNo};
use destage_sim::ssd::{CollectionPoint, ModernDesign, Ssd, SsdConfig, SsdShape, StartState, VictimPolicy};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::load::{below, unit};

/// Pages of the drives: 2 GiB.
const PAGES: u64 = 1 << 19;

/// Draws pages: all alike, by Zipf's law, or all of a share of the space.
enum AddressDraw {
    Uniform,
    /// Cumulated weights of ranks.
    Zipf(Vec<f64>),
    /// Thousandths of the space that is written.
    Share(u32),
}

impl AddressDraw {
    fn zipf(s: f64, pages: u32) -> Self {
        let mut sum = 0.0;
        let weights = (1..=pages).map(|rank| {
            sum += f64::from(rank).powf(-s);
            sum
        });
        Self::Zipf(weights.collect())
    }

    /// Draws a page; ranks and shares are scattered over the space.
    fn page(&self, random: &mut Xoshiro256PlusPlus, pages: u32) -> PageNo {
        let rank = match self {
            Self::Uniform => return PageNo(below(random, pages)),
            Self::Zipf(weights) => {
                let at = unit(random) * weights.last().copied().unwrap_or_default();
                weights.partition_point(|weight| *weight < at) as u32
            }
            Self::Share(share) => below(random, (u64::from(pages) * u64::from(*share) / 1000) as u32),
        };
        // A multiplier prime to the power of two that pages are.
        PageNo((u64::from(rank) * 2_654_435_761 % u64::from(pages)) as u32)
    }
}

/// Writes as much as the drive takes, 256 outstanding in order, until its throughput is steady; returns writes a second, and
/// its write amplification.
fn most_writes(ssd: &mut Ssd, draw: &AddressDraw, overwrites: u64) -> (f64, f64) {
    let pages = ssd.shape().host_pages;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut answered = [0_u64; 256];
    let (mut begin, mut before) = (0, ssd.total());
    let count = u64::from(pages) * overwrites;
    let mut last = 0;
    for number in 0..count {
        if number == count / 2 {
            (begin, before) = (last, ssd.total());
        }
        let slot = &mut answered[(number % 256) as usize];
        last = last.max(*slot);
        ssd.begin_command();
        *slot = ssd.program(Nanos(last), draw.page(&mut random, pages)).0;
    }
    let after = ssd.total();
    let programs = after.host_programs - before.host_programs;
    let moved = after.gc_pages_moved - before.gc_pages_moved;
    ((count - count / 2) as f64 * 1e9 / (last - begin) as f64, 1.0 + moved as f64 / programs as f64)
}

fn built(change: &dyn Fn(&mut SsdConfig)) -> Ssd {
    let page = PageGeometry::new(4096, 64).expect("a geometry");
    let mut config = ModernDesign::named("pm9a3").expect("a preset").config(page);
    let modern = config.modern.as_mut().expect("modern");
    (modern.exported_pages, modern.word_lines) = (PAGES, Some(4));
    change(&mut config);
    Ssd::new(SsdShape::new(config, page).expect("a shape"), StartState::Full)
}

/// Prints the write amplification of a drive of which so many GiB of 1,024 are used.
pub fn fill() {
    println!("\n## Write amplification by fill, of 1,024 GiB: ours (own, shared) / reference / Micron 7450 MAX\n");
    println!("| GiB | own | shared | reference | drive |\n|--:|--:|--:|--:|--:|");
    for (gib, reference, drive) in
        [(373, 1.09, 1.11), (522, 1.27, 1.28), (596, 1.43, 1.41), (671, 1.67, 1.60), (745, 2.03, 1.89)]
    {
        print!("| {gib} ");
        for point in [CollectionPoint::Own, CollectionPoint::Shared] {
            let mut ssd = built(&|config| {
                config.reserve_bp = 10_000 - gib * 10_000 / 1024;
                config.collection_write_point = point;
            });
            print!("| {:.2} ", most_writes(&mut ssd, &AddressDraw::Uniform, 10).1);
        }
        println!("| {reference} | {drive} |");
    }
}

/// Prints the most writes a second under skew, by those of uniform writes.
pub fn skew() {
    let pages = PAGES as u32;
    let draws = [
        AddressDraw::zipf(0.8, pages),
        AddressDraw::zipf(1.0, pages),
        AddressDraw::Share(800),
        AddressDraw::Share(600),
        AddressDraw::Share(400),
        AddressDraw::Share(200),
        AddressDraw::Share(100),
    ];
    let rows: [(&str, VictimPolicy, CollectionPoint, u64, [f64; 7]); 6] = [
        (
            "greedy, shared",
            VictimPolicy::Greedy,
            CollectionPoint::Shared,
            0,
            [0.79, 0.65, 0.99, 0.97, 0.93, 0.79, 2.30],
        ),
        ("fifo, own", VictimPolicy::Fifo, CollectionPoint::Own, 0, [0.79, 0.65, 0.0, 0.0, 0.0, 0.0, 0.0]),
        ("greedy, own", VictimPolicy::Greedy, CollectionPoint::Own, 0, [0.93, 1.08, 0.98, 0.92, 0.92, 0.88, 2.30]),
        (
            "d-choice:10, own",
            VictimPolicy::DChoice(10),
            CollectionPoint::Own,
            0,
            [1.02, 1.39, 1.00, 1.02, 1.14, 1.73, 2.57],
        ),
        (
            "cost-benefit, own",
            VictimPolicy::CostBenefit,
            CollectionPoint::Own,
            0,
            [1.07, 1.45, 1.01, 1.09, 1.41, 2.28, 3.28],
        ),
        ("greedy, own, 9 sectors held", VictimPolicy::Greedy, CollectionPoint::Own, 9, [0.0; 7]),
    ];
    println!("\n## Most writes a second by those of uniform writes: ours / reference (0: none given)\n");
    println!("| collector | uniform, 1/s | zipf 0.8 | zipf 1.0 | 80 % | 60 % | 40 % | 20 % | 10 % |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (name, victim, point, held, reference) in rows {
        let new = || {
            built(&|config| {
                config.collection_write_point = point;
                let modern = config.modern.as_mut().expect("modern");
                (modern.victim, modern.write_hold_bytes) = (victim, held << 12);
            })
        };
        let (uniform, _) = most_writes(&mut new(), &AddressDraw::Uniform, 10);
        print!("| {name} | {uniform:.0} ");
        for (draw, reference) in draws.iter().zip(reference) {
            let (rate, _) = most_writes(&mut new(), draw, 10);
            print!("| {:.2} / {reference:.2} ", rate / uniform);
        }
        println!("|");
    }
}
