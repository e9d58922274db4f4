//! Flips a bit of the intents or the NVRAM before a start. Of the intents all rows of its sector that members have marked
//! count as open, or all that they have marked. Of the NVRAM a start goes on without what is damaged, or is refused, naming
//! the pages of which a write cache had the newest version there. Nothing else that was promised is lost by that.

use destage_crash::FilesOptions;
use destage_raid::RaidLevel;

use crate::cells::run_cells;

#[test]
fn flipped_bits_cost_what_is_named_and_nothing_else() {
    let options = FilesOptions { rots: true, ..FilesOptions::default() };
    let all = run_cells(
        &[RaidLevel::Raid0, RaidLevel::Raid1, RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6],
        1,
        options,
    );
    assert!(all.runs < 20 || all.rotten > all.runs, "{} starts with a bit flipped", all.rotten);
}
