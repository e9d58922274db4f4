//! Gives the write amplification of uniform writes in the limit of very many blocks.

/// Returns that of choosing the block with the fewest valid sectors of `choices` drawn at random, for blocks of so many
/// sectors of which a share is exported: the fixed point of B. Van Houdt's mean-field model (SIGMETRICS 2013).
///
/// With `M_i` the share of blocks that have at least `i` valid sectors and `c` the rate at which a valid sector is overwritten
/// by that at which blocks are emptied, blocks with `i` of them are left as often as they are come to:
/// `c · i · (M_i - M_(i+1)) = 1 - M_i^choices`. The rate is the one at which the mean of valid sectors is what is exported.
pub fn of_choices(choices: i32, sectors: u32, exported: f64) -> f64 {
    let shares = |rate: f64| {
        let (mut above, mut mean, mut victim) = (0.0, 0.0, 0.0);
        for i in (1..=sectors).rev() {
            let flow = rate * f64::from(i);
            // The left side grows with the share and the right side falls.
            let (mut low, mut high) = (above, 1.0);
            for _ in 0..60 {
                let share = f64::midpoint(low, high);
                let is_less = flow * (share - above) < 1.0 - f64::powi(share, choices);
                if is_less { low = share } else { high = share }
            }
            above = low;
            mean += above;
            victim += f64::powi(above, choices);
        }
        (mean, victim)
    };
    let (mut low, mut high) = (1e-9_f64, 10.0_f64);
    for _ in 0..60 {
        let rate = (low * high).sqrt();
        // The faster sectors are overwritten, the fewer are valid.
        if shares(rate).0 > exported * f64::from(sectors) { low = rate } else { high = rate }
    }
    let (_, victim) = shares((low * high).sqrt());
    1.0 / (1.0 - victim / f64::from(sectors))
}

/// Returns that of the block with the fewest valid sectors of all: the limit of very many choices.
pub fn of_greedy(sectors: u32, exported: f64) -> f64 {
    of_choices(10_000, sectors, exported)
}

/// Returns that of the oldest block. In the time between two of its turns hosts write `1 / (A · exported)` sectors for each
/// that is exported, so that a share `exp(-1 / (A · exported))` of it is still valid, which is `1 - 1 / A` by what
/// amplification is (J. T. Robinson 1996, P. Desnoyers 2012).
pub fn of_fifo(exported: f64) -> f64 {
    let (mut low, mut high) = (1.0_f64, 1e6_f64);
    for _ in 0..200 {
        let a = f64::midpoint(low, high);
        if 1.0 - 1.0 / a < (-1.0 / (a * exported)).exp() { low = a } else { high = a }
    }
    f64::midpoint(low, high)
}
