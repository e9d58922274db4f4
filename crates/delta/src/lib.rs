//! Deltas: what has changed from one content of a page to the next, in few bytes.
//!
//! A delta of a page is at most as long as the page, so that it fits wherever a page does:
//!
//! * If it is as long as the page, it is the new page itself, *raw*.
//! * If it is shorter, its first byte names the codec. There is one so far, [`WORDS`]: behind that
//!   byte a bitmap with a bit for each word of eight bytes, the lowest bit of the first byte for
//!   the first word, which says whether the word has changed; then the changed words, each the
//!   exclusive or of old and new. The last word of a page is as long as what is left of the page.
//!
//! [`encode`] takes whichever is shortest. What is written is the only way to write it in its
//! codec, so that most damage shows: [`decode`] names the byte that cannot be.

/// First byte of a delta of changed words.
pub const WORDS: u8 = 1;
/// Bytes of a word.
const WORD: usize = 8;

/// Why bytes are no delta of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// No codec of this number.
    #[error("the codec at byte 0 is {0}; it must be {WORDS}")]
    Codec(u8),
    /// It ends too early, or goes on too long.
    #[error("the delta ends at byte {found}; it must end at byte {expected}")]
    Length {
        /// Bytes that there are.
        found: usize,
        /// Bytes that there must be, or be at least.
        expected: usize,
    },
    /// The bitmap says that a word has changed that the page does not have.
    #[error("the bitmap at byte {0} names words behind the end of the page")]
    Bitmap(usize),
    /// A word that is said to have changed has not.
    #[error("the word at byte {0} is said to have changed and has not")]
    Unchanged(usize),
}

/// Bytes of the delta of changed words from `base` to `new`.
fn words_len(base: &[u8], new: &[u8]) -> usize {
    let words = base.chunks(WORD).zip(new.chunks(WORD));
    let changed: usize = words.filter(|(old, new)| old != new).map(|(old, _)| old.len()).sum();
    1 + bitmap_len(base.len()) + changed
}

/// Bytes of a page's bitmap.
const fn bitmap_len(page: usize) -> usize {
    page.div_ceil(WORD).div_ceil(8)
}

/// Bytes of the delta that [`encode`] makes.
///
/// # Panics
/// If the pages differ in length.
pub fn encoded_len(base: &[u8], new: &[u8]) -> usize {
    assert_eq!(base.len(), new.len(), "both are a page");
    words_len(base, new).min(base.len())
}

/// Appends the delta that makes `new` of `base`; its length.
///
/// # Panics
/// If the pages differ in length.
pub fn encode(base: &[u8], new: &[u8], delta: &mut Vec<u8>) -> usize {
    let (start, len) = (delta.len(), encoded_len(base, new));
    delta.reserve(len);
    if len == new.len() {
        delta.extend_from_slice(new);
        return len;
    }
    delta.push(WORDS);
    let bitmap = delta.len();
    delta.resize(bitmap + bitmap_len(base.len()), 0);
    for (index, (old, new)) in base.chunks(WORD).zip(new.chunks(WORD)).enumerate() {
        if old != new {
            delta[bitmap + index / 8] |= 1 << (index % 8);
            delta.extend(old.iter().zip(new).map(|(old, new)| old ^ new));
        }
    }
    debug_assert_eq!(delta.len() - start, len, "the length is known before");
    len
}

/// Makes `page` what the delta makes of `base`. After an error it holds anything.
///
/// # Panics
/// If the pages differ in length.
pub fn decode(base: &[u8], delta: &[u8], page: &mut [u8]) -> Result<(), DeltaError> {
    assert_eq!(base.len(), page.len(), "both are a page");
    let bitmap = 1..1 + bitmap_len(base.len());
    if delta.len() == page.len() {
        page.copy_from_slice(delta);
        return Ok(());
    }
    let length = |expected| DeltaError::Length { found: delta.len(), expected };
    if delta.len() > page.len() {
        return Err(length(page.len()));
    }
    match delta.first() {
        Some(&WORDS) => {}
        Some(&codec) => return Err(DeltaError::Codec(codec)),
        None => return Err(length(1)),
    }
    let bits = delta.get(bitmap.clone()).ok_or(length(bitmap.end))?;
    let beyond = base.len().div_ceil(WORD) % 8;
    if beyond > 0 && bits.last().is_some_and(|last| last >> beyond != 0) {
        return Err(DeltaError::Bitmap(bitmap.end - 1));
    }
    page.copy_from_slice(base);
    let mut at = bitmap.end;
    for (index, word) in page.chunks_mut(WORD).enumerate() {
        if bits[index / 8] >> (index % 8) & 1 == 0 {
            continue;
        }
        let changes = delta.get(at..at + word.len()).ok_or(length(at + word.len()))?;
        if changes.iter().all(|change| *change == 0) {
            return Err(DeltaError::Unchanged(at));
        }
        word.iter_mut().zip(changes).for_each(|(byte, change)| *byte ^= change);
        at += word.len();
    }
    if at == delta.len() { Ok(()) } else { Err(length(at)) }
}
