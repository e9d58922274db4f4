//! Flips a bit of the intents before a start: all rows of its sector that members have marked count as open, and nothing
//! that was promised is lost by that.

use destage_crash::FilesOptions;
use destage_raid::Level;

use crate::cells::run_cells;

#[test]
fn flipped_bits_of_the_intents_cost_nothing() {
    let options = FilesOptions { rots: true, ..FilesOptions::default() };
    let all = run_cells(&[Level::Raid1, Level::Raid5, Level::Raid6], 1, options);
    assert!(all.runs < 20 || all.rotten > all.runs, "{} starts with a bit flipped", all.rotten);
}
