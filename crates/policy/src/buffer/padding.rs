//! Pads the missing pages of a block that leaves a write buffer (BPLRU's page padding, specs §5.2).

use destage_plan::{ParamSpec, Params, SpecError};

use super::page_bits::PageBits;
use super::{EvictionKind, Evictions};

/// Decides whether a victim's missing pages are read and written with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPadding {
    /// The smallest number of buffered pages with which a victim is padded; more than a block has
    /// where none is.
    from: u32,
}

impl BlockPadding {
    /// The parameter, with the default of BPLRU.
    pub(super) const PARAM: ParamSpec = ParamSpec {
        name: "padding",
        default: "always",
        values: "always, never, or a share f of 0 to 1: if at least f·N pages are buffered",
        unit: "share of a block",
        help: "whether the missing pages of a victim are read and written with it",
    };

    /// Reads the parameter, for blocks of `n` pages.
    ///
    /// # Errors
    /// Refuses a value that is neither a word nor a share from 0 to 1.
    pub(super) fn of(n: u32, params: &Params) -> Result<Self, SpecError> {
        let from = match params.text(Self::PARAM.name) {
            "always" => 0,
            "never" => return Ok(Self::never(n)),
            share => {
                let share = share.parse::<f64>().ok().filter(|f| (0.0..=1.0).contains(f));
                let share = share.ok_or_else(|| params.refuse(Self::PARAM.name))?;
                // The quotient is rounded as the share was: 7 / 100 is 0.07, whereas 0.07 * 100 is
                // more than 7.
                (0..=n).find(|&pages| f64::from(pages) / f64::from(n) >= share).unwrap_or(n)
            }
        };
        Ok(Self { from })
    }

    /// Pads no block of `n` pages.
    pub(super) const fn never(n: u32) -> Self {
        Self { from: n + 1 }
    }

    /// Is true if a block with so many buffered pages is padded.
    #[inline]
    pub(super) fn applies(self, buffered: u32) -> bool {
        buffered >= self.from
    }

    /// Writes a block of so many buffered pages, as a victim unit of its own; it stays in `cached`.
    #[inline]
    pub(super) fn write_out(self, buffered: u32, cached: &PageBits, block: u32, out: &mut Evictions) {
        if self.applies(buffered) {
            out.group(EvictionKind::Pad, cached.pages(block, false));
        }
        out.group(EvictionKind::Flush, cached.pages(block, true));
        out.end_unit();
    }
}
