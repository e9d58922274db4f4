//! Lines that are malformed, long, blank or cut, files that hold nothing, and standard input.

use super::compression::gzip;
use super::*;

#[test]
fn malformed_lines_name_line_field_text_and_what_is_right() {
    let good = "5,R,0,8\n";
    let cases = [
        ("5,R,0x10,8", "the address is \"0x10\", expected a whole number"),
        ("5,R,-1,8", "the address is \"-1\", expected a whole number"),
        ("5,X,0,8", "the kind is \"X\", expected R, W, WF, F or D, or RWBS letters such as WS"),
        ("1e3,R,0,8", "the time is \"1e3\", expected a plain decimal number of microseconds such as 12.345"),
        ("5,R,0", "the line ends before the length"),
        ("5,R,0,8,9", "there is a further field \"9\" where the line should end"),
        ("5,R,0,\u{0}8", "the length is \"\\x008\", expected a whole number"),
        ("5,R,0,8\u{e9}", "the length is \"8\\xc3\\xa9\", expected a whole number"),
        ("5,\"R\",0,8", "the kind is \"\\\"R\\\"\": quoted fields are not read, remove the quotes"),
        ("5,,0,8", "the kind is empty, expected text"),
        ("5,R,18446744073709551616,8", "the address is \"18446744073709551616\", expected a whole number below 2^64"),
        ("5,R,36028797018963968,8", "the address is 36028797018963968 sectors, more than 2^64 bytes"),
        ("5,R,36028797018963967,8", "4096 bytes at byte 18446744073709551104 reach beyond 2^64"),
        ("99999999999999999999,R,0,8", "expected a time below 2^64 nanoseconds (584 years)"),
    ];
    for (line, reason) in cases {
        let text = format!("{good}\r\n \t\n{line}\n{good}");
        let message = error(text.clone(), "rq-csv");
        assert!(message.starts_with("memory, line 4: ") && message.ends_with(reason), "{line}: {message}");
        let (requests, skipped) = read(text, "rq-csv", true).unwrap();
        assert_eq!(requests.len(), 2, "{line}");
        assert_eq!((skipped.count, skipped.first), (1, Some(message)));
    }
    let long = format!("{good}5,R,{},8\n", "y".repeat(60));
    assert!(error(long, "rq-csv").contains(&format!("the address is \"{}\"..., expected", "y".repeat(40))));
}

#[test]
fn lenient_readers_count_and_keep_the_first_reason() {
    let mut text = String::new();
    for n in 0..30_000 {
        text.push_str(if n % 3 == 2 { "junk\n" } else { "5,W,8,8\n" });
    }
    let (requests, skipped) = read(text.clone(), "rq-csv", true).unwrap();
    assert_eq!((requests.len(), skipped.count), (20_000, 10_000));
    assert!(skipped.first.unwrap().starts_with("memory, line 3: the time is \"junk\""));
    assert!(read("junk\n", "rq-csv", true).unwrap_err().contains("none of its lines can be read as this format"));
    // The time base is that of the first readable line.
    let (requests, _) = read("1,W,x,8\n7,W,8,8\n9,W,8,8\n", "rq-csv", true).unwrap();
    assert_eq!(requests.iter().map(|r| r.time.0).collect::<Vec<_>>(), [0, 2000]);
}

#[test]
fn lines_may_be_long_but_not_too_long() {
    let line = |bytes: usize| format!("{}5,W,8,8", " ".repeat(bytes - 7));
    let text = |bytes: usize| format!("1,W,0,8\n{}\n9,W,8,8\n", line(bytes));
    assert_eq!(read(text(65_536), "rq-csv", false).unwrap().0.len(), 3);
    let message = "memory, line 2: the line is longer than 64 KiB, expected one request per line";
    for bytes in [65_537, 400_000, 5_000_000] {
        assert_eq!(error(text(bytes), "rq-csv"), message);
        let (requests, skipped) = read(text(bytes), "rq-csv", true).unwrap();
        assert_eq!((requests.len(), skipped.count), (2, 1), "{bytes}");
    }
    // The last line, without an end.
    assert_eq!(error(format!("1,W,0,8\n{}", line(70_000)), "rq-csv"), message);
}

#[test]
fn line_ends_and_blank_lines_do_not_matter() {
    let plain = "5,W,8,8\n6,R,8,8\n";
    let expected = read(plain, "", false).unwrap();
    for text in [
        "5,W,8,8\r\n6,R,8,8\r\n",
        "5,W,8,8\n6,R,8,8",
        "\n\n5,W,8,8\n  \n\t\n6,R,8,8\n\n",
        "\u{feff}5,W,8,8\n6,R,8,8\n",
        " 5 , W , 8 , 8 \n6,R,8,8\n",
    ] {
        assert_eq!(read(text, "", false).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn lines_survive_any_cut_of_the_stream() {
    /// Gives a few bytes at a time.
    struct Dribble(Cursor<Vec<u8>>, usize);
    impl std::io::Read for Dribble {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.1 = self.1 % 7 + 1;
            let n = buf.len().min(self.1);
            self.0.read(&mut buf[..n])
        }
    }
    let text: String = many_lines(30_000, "\r\n");
    let whole = read(text.clone(), "", false).unwrap().0;
    assert_eq!(whole.len(), 30_000);
    let stream = Box::new(Dribble(Cursor::new(text.into_bytes()), 0));
    let mut trace = open_stream("memory", stream, None, &OpenOptions::default()).unwrap();
    assert_eq!(drain(&mut trace).unwrap(), whole);
    assert_eq!(trace.progress(), None);
}

#[test]
fn files_that_hold_nothing_are_errors() {
    assert_eq!(error("", ""), "memory: is empty, expected a trace");
    assert_eq!(error("", "msr"), "memory: is empty, expected a trace");
    assert_eq!(error("\n\n", "msr"), "memory: holds no request");
    assert_eq!(error("Timestamp,Response,IOType,LUN,Offset,Size\n", "systor"), "memory: holds no request");
    assert!(error("what is this\n", "").contains("fits no known format; it begins \"what is this\""));
    let missing = open("no/such/file", &OpenOptions::default()).unwrap_err();
    assert!(missing.to_string().starts_with("no/such/file: cannot be opened: "));
    let directory = open(env!("CARGO_MANIFEST_DIR"), &OpenOptions::default()).unwrap_err();
    assert!(directory.reason.contains("is a directory"));
}

#[test]
fn after_an_error_there_is_nothing_more() {
    let mut broken = vscsi1(1, 4096, 0x28, 8, 1).repeat(3);
    broken.extend([1; 32]);
    broken.extend(vscsi1(1, 4096, 0x28, 8, 1));
    for (bytes, format) in [(b"5,W,8,8\njunk\n6,W,8,8\n".to_vec(), "rq-csv"), (broken, "vscsi")] {
        let mut trace = memory(bytes, &options(format, false)).unwrap();
        let mut batch = Vec::new();
        assert!(trace.next_batch(&mut batch).is_err());
        assert!(batch.is_empty());
        trace.next_batch(&mut batch).unwrap();
        assert!(batch.is_empty());
    }
}

/// Runs itself with a trace as its standard input.
#[test]
fn standard_input() {
    const CHILD: &str = "DESTAGE_TEST_READS_STANDARD_INPUT";
    if std::env::var_os(CHILD).is_some() {
        let mut trace = open("-", &OpenOptions::default()).unwrap();
        assert_eq!(trace.file(), Path::new("standard input"));
        let requests = drain(&mut trace).unwrap();
        println!("{} requests of {} by {}", requests.len(), trace.format(), trace.compression());
        assert_eq!(trace.progress(), None);
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["readers::lines::standard_input", "--exact", "--nocapture"])
        .env(CHILD, "1")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&gzip(many_lines(50_000, "\n").as_bytes())).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("50000 requests of rq-csv by gzip"), "{text}");
}
