//! Holds what two drives were measured to do (Haas, Lee, Bonnet, Leis: *SSD-iq: Uncovering the Hidden Side of SSD Performance*,
//! PVLDB 2025), which parts of that the model is known to miss, and write amplification by a third drive's own counters.

/// Names the six figures of a rate: p50, p99 and p99.9 of reads, then of writes.
pub(super) const FIGURES: [&str; 6] = ["read p50", "p99", "p99.9", "write p50", "p99", "p99.9"];

/// Holds the response times at a rate.
pub(super) struct MeasuredRate {
    /// Writes a second, of all threads; what the drive takes in all, if `is_saturated`.
    pub(super) writes: f64,
    pub(super) is_saturated: bool,
    /// Holds the [`FIGURES`] in µs.
    pub(super) times: [f64; 6],
}

/// Says which figures the model is known to miss.
pub(super) struct KnownMiss {
    /// Lists indices of [`FIGURES`].
    pub(super) figures: &'static [usize],
    /// First and last rate, in writes a second.
    pub(super) rates: (f64, f64),
    pub(super) why: &'static str,
}

/// Says which pages are written.
#[derive(Clone, Copy)]
pub(super) enum WriteSkew {
    /// Writes all pages alike.
    Uniform,
    /// Writes by Zipf's law with this exponent.
    Zipf(f64),
    /// Writes so many percent of the space, and never the rest.
    Share(u32),
}

impl WriteSkew {
    /// Returns the name.
    pub(super) fn name(self) -> String {
        match self {
            Self::Uniform => "uniform".to_owned(),
            Self::Zipf(s) => format!("zipf {s:.1}"),
            Self::Share(percent) => format!("{percent} % of the space"),
        }
    }
}

/// Lists the skews under which throughput was measured.
pub(super) const SKEWS: [WriteSkew; 9] = [
    WriteSkew::Uniform,
    WriteSkew::Zipf(0.2),
    WriteSkew::Zipf(0.4),
    WriteSkew::Zipf(0.6),
    WriteSkew::Zipf(0.8),
    WriteSkew::Zipf(1.0),
    WriteSkew::Share(60),
    WriteSkew::Share(20),
    WriteSkew::Share(10),
];

/// Holds what is known of a drive.
pub(super) struct MeasuredDrive {
    /// Name of the preset.
    pub(super) preset: &'static str,
    pub(super) name: &'static str,
    /// Pages of the drive that is simulated, and word lines of its blocks: a small one of the same kind.
    pub(super) pages: u64,
    pub(super) word_lines: u32,
    /// Pages that the write cache holds back, scaled to the size that is simulated.
    pub(super) held_pages: u64,
    pub(super) rates: [MeasuredRate; 8],
    /// MiB/s of writes alone, for each of [`SKEWS`].
    pub(super) throughput: [f64; 9],
    pub(super) misses: &'static [KnownMiss],
    /// Lists indices of [`SKEWS`] with the reason why the model is known to miss them.
    pub(super) missed_skews: &'static [(&'static [usize], &'static str)],
}

const fn below(writes: f64, times: [f64; 6]) -> MeasuredRate {
    MeasuredRate { writes, is_saturated: false, times }
}

const fn most(writes: f64, times: [f64; 6]) -> MeasuredRate {
    MeasuredRate { writes, is_saturated: true, times }
}

/// Lists the drives. Below saturation response times are those of the measurement's thread 0, at saturation those of the other
/// threads.
pub(super) const DRIVES: [MeasuredDrive; 2] = [
    MeasuredDrive {
        preset: "pm9a3",
        name: "Samsung PM9A3, 960 GB",
        pages: 1 << 19,
        word_lines: 4,
        held_pages: 9,
        rates: [
            below(10e3, [64.0, 237.0, 393.0, 11.0, 14.0, 17.0]),
            below(20e3, [71.0, 276.0, 428.0, 11.0, 14.0, 17.0]),
            below(30e3, [73.0, 318.0, 472.0, 11.0, 14.0, 17.0]),
            below(40e3, [89.0, 349.0, 505.0, 11.0, 15.0, 17.0]),
            below(50e3, [104.0, 372.0, 529.0, 12.0, 43.0, 71.0]),
            below(60e3, [107.0, 388.0, 544.0, 14.0, 81.0, 138.0]),
            below(70e3, [114.0, 381.0, 602.0, 23.0, 307.0, 1613.0]),
            most(76_400.0, [2898.0, 4394.0, 4640.0, 5366.0, 6306.0, 6803.0]),
        ],
        throughput: [279.0, 279.0, 279.0, 277.0, 259.0, 396.0, 273.0, 261.0, 577.0],
        misses: &[KnownMiss {
            figures: &[3, 4, 5],
            rates: (50e3, 70e3),
            why: "from two thirds of its rate on the drive holds some writes up, by 10 µs to 1.6 ms; the model answers all of them \
                  from its cache until that is full",
        }],
        missed_skews: &[(
            &[5, 8],
            "how this drive chooses what it collects is not published; the preset is greedy, and cost-benefit comes closer under zipf 1.0",
        )],
    },
    MeasuredDrive {
        preset: "p5520",
        name: "Solidigm D7-P5520, 1.92 TB",
        pages: 1 << 20,
        word_lines: 2,
        held_pages: 0,
        rates: [
            below(10e3, [70.0, 254.0, 409.0, 8.0, 26.0, 150.0]),
            below(20e3, [116.0, 363.0, 487.0, 8.0, 56.0, 165.0]),
            below(40e3, [117.0, 414.0, 533.0, 8.0, 54.0, 149.0]),
            below(60e3, [124.0, 438.0, 565.0, 8.0, 41.0, 69.0]),
            below(80e3, [142.0, 460.0, 603.0, 8.0, 52.0, 115.0]),
            below(100e3, [141.0, 467.0, 615.0, 9.0, 72.0, 217.0]),
            below(110e3, [135.0, 461.0, 616.0, 9.0, 93.0, 1584.0]),
            most(119e3, [900.0, 3000.0, 4100.0, 3240.0, 6303.0, 8201.0]),
        ],
        throughput: [507.0, 453.0, 447.0, 432.0, 441.0, 556.0, 545.0, 871.0, 656.0],
        misses: &[
            KnownMiss {
                figures: &[0, 1],
                rates: (10e3, 60e3),
                why: "the drive senses a page in 60 µs when it is idle and in about 100 µs under load; the model has one time",
            },
            KnownMiss {
                figures: &[4, 5],
                rates: (10e3, 110e3),
                why: "the drive holds one write in a hundred up by 20 to 90 µs at any rate; the model answers all of them from its \
                      cache until that is full",
            },
        ],
        missed_skews: &[(
            &[6, 7, 8],
            "how this drive chooses what it collects is not published; the preset is greedy, which suits its zipf rows, and \
             d-choice:10 comes closer with 60 and 20 % of the space",
        )],
    },
];

/// Holds write amplification by fill: GiB of 1,024 that are used, and what the own counters of a Micron 7450 MAX of 800 GB say
/// of uniform writes.
pub(super) const FILLS: [(u32, f64); 5] = [(373, 1.11), (522, 1.28), (596, 1.41), (671, 1.60), (745, 1.89)];
