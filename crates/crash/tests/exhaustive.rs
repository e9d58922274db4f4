//! Short histories, cut after every step in every way.

use destage_crash::{Limits, Plain, Subject, Through, exhaust};
use destage_raid::Level;

fn all<S: Subject>(subject: &S, level: Level) {
    let soak = std::env::var_os("DESTAGE_SOAK").is_some();
    let limits = Limits { level: Some(level), no_losses: true, no_cuts: true, ..Limits::default() };
    // Subsets of up to three pages are tried one by one, in the soak of up to five.
    let (histories, cap) = if soak { (416, 1 << 5) } else { (104, 1 << 3) };
    match exhaust(subject, 0..histories, &limits, cap) {
        Ok(done) => {
            println!(
                "{} {level}: {} histories, {} moments ({} with more than {cap} subsets), {} cuts",
                subject.name(),
                done.histories,
                done.moments,
                done.capped,
                done.cuts
            );
            assert!(done.histories == histories && done.cuts > done.moments, "every moment is cut in several ways");
        }
        Err(failure) => panic!("{} {level}: {failure}", subject.name()),
    }
}

#[test]
fn every_cut_of_short_histories_without_a_cache() {
    for level in Level::ALL {
        all(&Plain, level);
    }
}

#[test]
fn every_cut_of_short_histories_behind_a_write_through_cache() {
    for level in Level::ALL {
        all(&Through, level);
    }
}
