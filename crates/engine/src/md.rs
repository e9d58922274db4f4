//! Computes where Linux' md would put data on a member, so either can take over members that the other has
//! written.

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes before the first page of a member of so many bytes, as `mdadm --create` chooses them for metadata 1.2:
/// room for the superblock and a bitmap, and for growing (a thousandth of the member, at most 128 MiB, but at least
/// two chunks), in whole MiB. What mdadm chooses for a member of its own may be given with its `--data-offset`.
pub(crate) fn data_offset(member: u64, chunk: u64) -> u64 {
    // The same sizes as those of `choose_bm_space` in mdadm's super1.c.
    let bitmap = match member {
        0..65_536 => 0,
        member if member >= 200 * GIB + 64 * KIB => 128 * KIB,
        member if member > 8 * GIB + 4 * KIB => 64 * KIB,
        _ => 4 * KIB,
    };
    // mdadm halves this room in the same way until it is a thousandth of the member.
    let mut growing = 128 * MIB;
    while growing * 1024 > member && growing / 2 >= 2 * chunk {
        growing /= 2;
    }
    (12 * KIB + bitmap + growing).next_multiple_of(MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In sectors of 512 bytes, as mdadm shows them, by the rule of its source in such sectors.
    #[test]
    fn it_is_what_mdadm_chooses() {
        for (member, sectors) in [(100 * MIB, 4096), (GIB, 4096), (100 * GIB, 133_120), (4000 * GIB, 264_192)] {
            assert_eq!(data_offset(member, 512 * KIB), sectors * 512, "{member}");
        }
        for (member, sectors) in [(100 * MIB, 2048), (256 * MIB, 2048), (GIB, 4096), (100 * GIB, 133_120)] {
            assert_eq!(data_offset(member, 64 * KIB), sectors * 512, "{member}");
        }
    }
}
