//! Aligned bytes.

use destage_exec::AlignedBuffer;

#[test]
fn bytes_stay_aligned_and_what_they_are_as_a_buffer_grows() {
    let mut buffer = AlignedBuffer::new();
    let mut expected = Vec::new();
    for round in 0..40_u8 {
        buffer.extend_from_slice(&[round; 700]);
        expected.extend([round; 700]);
        assert_eq!(buffer, expected);
        assert_eq!(buffer.as_ptr().addr() % AlignedBuffer::ALIGN, 0);
    }
    let place = buffer.as_ptr();
    buffer.clear();
    assert!(buffer.is_empty());
    buffer.resize(20_000);
    assert_eq!((buffer.as_ptr(), buffer.iter().any(|byte| *byte != 0)), (place, false), "used again, as zeros");
}

#[test]
fn a_buffer_that_cannot_grow_stays_as_it_is() {
    let mut buffer = AlignedBuffer::from(&[7; 700][..]);
    let (place, allocated) = (buffer.as_ptr(), buffer.capacity());
    assert!(buffer.try_resize(isize::MAX as usize - AlignedBuffer::ALIGN).is_err());
    assert_eq!((buffer.as_ptr(), buffer.capacity()), (place, allocated));
    assert_eq!(buffer, vec![7; 700]);
    for len in [1, 4096, 4097, 1 << 20, (1 << 20) + 1, 33 << 20] {
        let mut buffer = AlignedBuffer::new();
        buffer.try_resize(len).expect("there is memory for it");
        assert!(buffer.len() == len && buffer.iter().all(|byte| *byte == 0));
        assert_eq!(buffer.capacity(), AlignedBuffer::footprint(len), "{len}");
        assert_eq!(buffer.as_ptr().addr() % AlignedBuffer::ALIGN, 0);
    }
    assert_eq!(
        AlignedBuffer::footprint(33 << 20),
        (33 << 20) + AlignedBuffer::ALIGN,
        "long ones take no more than they are"
    );
}
