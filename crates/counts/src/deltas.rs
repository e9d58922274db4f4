//! Deltas of pages.

use destage_delta::DeltaKernels;
use destage_delta::patterns::ChangePattern;

use crate::Work;

/// Pages of each pattern.
const PAGES: u64 = 32;
const PAGE: usize = 4096;

/// Makes and applies deltas of pages a tenth of which has changed, in runs and in single bytes, by
/// the kernels of this instruction set; the best ones that all processors in use have are
/// `avx2-bmi2`.
///
/// # Panics
/// If the processor lacks it.
pub fn delta(set: &str) -> Work {
    let kernels =
        DeltaKernels::all_available().find(|kernels| kernels.name() == set).expect("an instruction set that is there");
    let contents = |pattern: ChangePattern, seed: u64| {
        let (mut base, mut new) = (vec![0; PAGE], vec![0; PAGE]);
        ChangePattern::OneRun.fill(PAGE, !seed, &mut base);
        pattern.fill(PAGE / 10, seed, &mut new);
        new.iter_mut().zip(&base).for_each(|(new, old)| *new ^= old);
        [base, new]
    };
    let pages: Vec<_> = (0..PAGES)
        .flat_map(|seed| [contents(ChangePattern::Runs, seed), contents(ChangePattern::Bytes, seed)])
        .collect();
    let (mut delta, mut page) = (vec![0; PAGE], vec![0; PAGE]);
    Box::new(move || {
        let mut sum = 0;
        for [base, new] in &pages {
            let len = kernels.encode(base, new, &mut delta);
            kernels.decode(base, &delta[..len], &mut page).expect("what was made");
            // The result depends on what was decoded, so that the compiler leaves nothing out.
            sum += len as u64 + u64::from(page[len]);
        }
        sum
    })
}
