//! Aligned bytes.

use destage_exec::Buffer;

#[test]
fn bytes_stay_aligned_and_what_they_are_as_a_buffer_grows() {
    let mut buffer = Buffer::new();
    let mut expected = Vec::new();
    for round in 0..40_u8 {
        buffer.extend_from_slice(&[round; 700]);
        expected.extend([round; 700]);
        assert_eq!(buffer, expected);
        assert_eq!(buffer.as_ptr().addr() % Buffer::ALIGN, 0);
    }
    let place = buffer.as_ptr();
    buffer.clear();
    assert!(buffer.is_empty());
    buffer.resize(20_000);
    assert_eq!((buffer.as_ptr(), buffer.iter().any(|byte| *byte != 0)), (place, false), "used again, as zeros");
}
