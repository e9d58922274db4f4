//! Checks the simulator against theory: formulas of others, which use no result of the simulator.

/// Write amplification of greedy cleaning under uniform random single-page writes, in the limit of
/// many blocks: the fixed point of the mean-field model of B. Van Houdt, "A mean field model for a
/// class of garbage collection algorithms in flash-based solid state drives" (SIGMETRICS 2013), as
/// the number of choices d of his d-choices algorithm grows without bound, which makes it the
/// greedy one.
///
/// `pages` is the number of data pages of a block, `spare_factor` the share ρ of valid pages among
/// all data pages of the blocks that are in use (not free), between 0 and 1, both exclusive.
///
/// In the limit a block loses its pages one by one, at a rate proportional to how many are left,
/// until it has `m` of them, where `m` is the least number at which not every block is cleaned at
/// once. So the blocks with `i > m` valid pages are in the proportion `φ / i`, where `φ` is the
/// flow of blocks per page write, and a share `x` waits at `m`. The shares add up to 1 and the
/// valid pages to `ρ · pages`; a flow of `m · x` of the victims falls to `m - 1` while it waits,
/// and is taken at once.
pub fn greedy_write_amplification(pages: u32, spare_factor: f64) -> f64 {
    let b = f64::from(pages);
    let mut harmonic: f64 = (1..=pages).map(|i| 1.0 / f64::from(i)).sum();
    for m in 0..pages {
        // The sum of 1/i over m < i <= pages.
        if m > 0 {
            harmonic -= 1.0 / f64::from(m);
        }
        let m = f64::from(m);
        let flow = (spare_factor * b - m) / (b - m - m * harmonic);
        let waiting = 1.0 - flow * harmonic;
        if flow > 0.0 && (-1e-12..).contains(&waiting) && m * waiting <= flow * (1.0 + 1e-12) {
            let valid = m - m * waiting / flow;
            return b / (b - valid);
        }
    }
    f64::INFINITY
}

/// The same for blocks of very many pages: 1 / (1 - u), where u is the share of valid pages in a
/// victim and solves ρ = (1 - u) / (-ln u) (L. Xiang and B. Kurkoski, "An improved analytical
/// expression for write amplification in NAND flash", 2011, who write u with Lambert's W).
pub fn greedy_write_amplification_of_large_blocks(spare_factor: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..200 {
        let u = f64::midpoint(low, high);
        if (1.0 - u) / -libm::log(u) < spare_factor { low = u } else { high = u }
    }
    1.0 / (1.0 - f64::midpoint(low, high))
}

/// Mean time that a customer of an M/D/1 queue waits before its service of `service` begins, at a
/// load below 1 (F. Pollaczek 1930, A. Khinchine 1932), in the unit of `service`.
pub fn md1_wait(service: f64, load: f64) -> f64 {
    load * service / (2.0 * (1.0 - load))
}
