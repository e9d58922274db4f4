//! Flips a bit of the intents or the NVRAM before a start. Of the intents all rows of its sector that members have marked
//! count as open, or all that they have marked. Of the NVRAM a start goes on without what is damaged, or is refused, naming
//! the pages of which a write cache had the newest version there. Nothing else that was promised is lost by that.

use destage_crash::FilesOptions;
use destage_raid::Level;

use crate::cells::run_cells;

#[test]
fn flipped_bits_cost_what_is_named_and_nothing_else() {
    let options = FilesOptions { rots: true, ..FilesOptions::default() };
    let all = run_cells(&[Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6], 1, options);
    assert!(all.runs < 20 || all.rotten > all.runs, "{} starts with a bit flipped", all.rotten);
}
