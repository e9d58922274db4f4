//! Write amplification of the modern drive's collectors, beside a Monte Carlo simulation of collection alone
//! (`monte_carlo.rs`) and mean-field theory (`mean_field.rs`).

mod mean_field;
mod monte_carlo;

use destage_plan::{Nanos, PageGeometry, PageNo};
use destage_sim::ssd::{
    CollectionPoint, ModernConfig, ModernDesign, Ssd, SsdConfig, SsdShape, StartState, VictimPolicy,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use monte_carlo::{CarloFlash, FlashSize};

const COLLECTORS: [VictimPolicy; 4] =
    [VictimPolicy::Greedy, VictimPolicy::Fifo, VictimPolicy::DChoice(10), VictimPolicy::CostBenefit];

/// Draws an index below `bound`.
fn below(random: &mut Xoshiro256PlusPlus, bound: u32) -> u32 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u32
}

/// Sets how large drives are, and for how long they are written.
struct CollectorEffort {
    superblocks: u32,
    word_lines: u32,
    /// Sets how often the exported size is written; what the second half amplifies is compared.
    overwrites: u32,
}

fn effort() -> CollectorEffort {
    if std::env::var_os("DESTAGE_SOAK").is_some() {
        CollectorEffort { superblocks: 1000, word_lines: 4, overwrites: 12 }
    } else {
        CollectorEffort { superblocks: 512, word_lines: 2, overwrites: 8 }
    }
}

/// Draws sectors: those of rank `i` in proportion to `i^-exponent`, scattered over the drive.
struct SkewedSectors {
    cumulated: Vec<f64>,
    order: Vec<u32>,
}

impl SkewedSectors {
    fn new(exponent: f64, sectors: u32) -> Self {
        let mut sum = 0.0;
        let weights = (1..=sectors).map(|rank| {
            sum += f64::from(rank).powf(-exponent);
            sum
        });
        let cumulated = weights.collect();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut order: Vec<u32> = (0..sectors).collect();
        (1..sectors).rev().for_each(|i| order.swap(i as usize, below(&mut random, i + 1) as usize));
        Self { cumulated, order }
    }

    fn draw(&self, random: &mut Xoshiro256PlusPlus) -> u32 {
        let unit = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let at = unit * self.cumulated.last().copied().unwrap_or_default();
        self.order[self.cumulated.partition_point(|weight| *weight <= at)]
    }
}

/// Returns a drive of two dies, of which 87.5 % are exported, and what a Monte Carlo simulation of its flash needs.
fn drive(victim: VictimPolicy, point: CollectionPoint) -> (SsdShape, FlashSize) {
    let CollectorEffort { superblocks, word_lines, .. } = effort();
    let page = PageGeometry::new(4096, 1).expect("a geometry");
    let config = ModernDesign::named("pm9a3").expect("a preset").config(page);
    let block_sectors = 2 * 24 * word_lines;
    let modern = ModernConfig {
        exported_pages: u64::from(superblocks * block_sectors) * 7 / 8,
        word_lines: Some(word_lines),
        victim,
        ..config.modern.clone().expect("modern")
    };
    let kept_free = modern.free_target;
    let config =
        SsdConfig { elements: 2, reserve_bp: 1250, collection_write_point: point, modern: Some(modern), ..config };
    let shape = SsdShape::new(config, page).expect("a shape");
    let size = FlashSize {
        exported: shape.host_pages,
        blocks: (superblocks + kept_free) as usize,
        block_sectors: block_sectors as usize,
        kept_free: kept_free as usize,
    };
    (shape, size)
}

/// Returns the write amplification of the second half of so many writes.
fn amplified(writes: u32, mut write: impl FnMut() -> u64) -> f64 {
    let (half, mut before) = (writes / 2, 0);
    for _ in 0..half {
        before = write();
    }
    let mut after = before;
    for _ in half..writes {
        after = write();
    }
    1.0 + (after - before) as f64 / f64::from(writes - half)
}

/// Returns the write amplification of the drive.
fn of_drive(shape: SsdShape, sectors: &SkewedSectors) -> f64 {
    let writes = shape.host_pages * effort().overwrites;
    let mut ssd = Ssd::new(shape, StartState::Full);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut now, mut moved, mut number) = (0, 0, 0_u32);
    let found = amplified(writes, || {
        now += 300_000;
        ssd.program(Nanos(now), PageNo(sectors.draw(&mut random)));
        number += 1;
        // Counters are summed over all dies: only where they are looked at.
        if number == writes / 2 || number == writes {
            moved = ssd.total().gc_pages_moved;
        }
        moved
    });
    ssd.check().expect("its laws");
    found
}

/// Returns that of the Monte Carlo simulation, whose writes are others of the same kind.
fn of_carlo(size: FlashSize, victim: VictimPolicy, point: CollectionPoint, sectors: &SkewedSectors) -> f64 {
    let mut flash = CarloFlash::full(size, victim, point == CollectionPoint::Own);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    amplified(size.exported * effort().overwrites, || {
        flash.write(sectors.draw(&mut random));
        flash.copied
    })
}

#[test]
fn collectors_amplify_writes_as_theory_and_simulation_say() {
    let mut found = Vec::new();
    let exported = drive(VictimPolicy::Greedy, CollectionPoint::Own).1.exported;
    for (name, exponent) in [("uniform", 0.0), ("zipf 0.8", 0.8), ("zipf 1.0", 1.0)] {
        let sectors = SkewedSectors::new(exponent, exported);
        for victim in COLLECTORS {
            for point in CollectionPoint::ALL {
                let (shape, size) = drive(victim, point);
                let (drive, carlo) = (of_drive(shape, &sectors), of_carlo(size, victim, point, &sectors));
                let used = size.exported as f64 / ((size.blocks - size.kept_free) * size.block_sectors) as f64;
                let theory = match victim {
                    _ if exponent > 0.0 => None,
                    VictimPolicy::Greedy => Some(mean_field::of_greedy(size.block_sectors as u32, used)),
                    VictimPolicy::Fifo => Some(mean_field::of_fifo(used)),
                    VictimPolicy::DChoice(choices) => {
                        Some(mean_field::of_choices(choices.cast_signed(), size.block_sectors as u32, used))
                    }
                    VictimPolicy::CostBenefit => None,
                };
                found.push((format!("{name}, {victim}, {point:?}"), drive, carlo, theory));
            }
        }
    }
    for (what, drive, carlo, theory) in &found {
        println!(
            "{what}: {drive:.3}, Monte Carlo {carlo:.3} ({:+.2} %), theory {theory:?}",
            (drive / carlo - 1.0) * 100.0
        );
    }
    for (what, drive, carlo, theory) in found {
        for (other, whose) in [Some(carlo), theory].into_iter().flatten().zip(["Monte Carlo", "mean field"]) {
            assert!((drive / other - 1.0).abs() < 0.02, "{what}: {drive}, and {other} ({whose})");
        }
    }
}
